"""The faults made on purpose, to see that the simulation finds them: a checker that cannot fail is worth nothing.

Written down in `faults_disk`, `faults_reading`, `faults_owning`, `faults_policy`, `faults_backup`, `faults_restore`,
`faults_broker`, `faults_holding`, `faults_threads`, as `fault` says.
"""

from tests.simulation import faults_backup as faults_backup
from tests.simulation import faults_broker as faults_broker
from tests.simulation import faults_disk as faults_disk
from tests.simulation import faults_holding as faults_holding
from tests.simulation import faults_owning as faults_owning
from tests.simulation import faults_policy as faults_policy
from tests.simulation import faults_reading as faults_reading
from tests.simulation import faults_restore as faults_restore
from tests.simulation import faults_threads as faults_threads
from tests.simulation.fault import FAULTS as FAULTS
from tests.simulation.fault import Fault as Fault
