"""All targets, by their names."""

from collections.abc import Mapping

from tests.fuzz.broker_targets import BROKER_TARGETS
from tests.fuzz.directory_targets import DIRECTORY_TARGETS
from tests.fuzz.file_targets import FILE_TARGETS
from tests.fuzz.server_targets import SERVER_TARGETS
from tests.fuzz.target import Target
from tests.fuzz.text_targets import TEXT_TARGETS

TARGETS: Mapping[str, Target] = {
    **FILE_TARGETS,
    **DIRECTORY_TARGETS,
    **BROKER_TARGETS,
    **SERVER_TARGETS,
    **TEXT_TARGETS,
}
