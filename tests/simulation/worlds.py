"""The worlds there are, by name."""

from tests.simulation.backup.world import BackupWorld
from tests.simulation.broker.world import BrokerWorld
from tests.simulation.engine.world import EngineWorld
from tests.simulation.queues.world import QueuesWorld
from tests.simulation.threads.world import ThreadsWorld
from tests.simulation.toy import ToyWorld
from tests.simulation.world import World

REAL: dict[str, World] = {
    world.name: world for world in (EngineWorld(), QueuesWorld(), ThreadsWorld(), BackupWorld(), BrokerWorld())
}

# Worlds with a known bug each, for the tests of the runner.
TOYS: dict[str, World] = {world.name: world for world in map(ToyWorld, ("none", "forgets", "raises", "hangs", "dies"))}

WORLDS: dict[str, World] = REAL | TOYS
