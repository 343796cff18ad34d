"""The faults made on purpose, to see that the simulation finds them: a checker that cannot fail is worth nothing.

They are written down in the modules beside this one, as `fault` says.
"""

from tests.simulation.faults import backup as backup
from tests.simulation.faults import broker as broker
from tests.simulation.faults import disk as disk
from tests.simulation.faults import holding as holding
from tests.simulation.faults import limits as limits
from tests.simulation.faults import owning as owning
from tests.simulation.faults import policy as policy
from tests.simulation.faults import queues as queues
from tests.simulation.faults import reading as reading
from tests.simulation.faults import restore as restore
from tests.simulation.faults import threads as threads
from tests.simulation.faults.fault import FAULTS as FAULTS
from tests.simulation.faults.fault import Fault as Fault
