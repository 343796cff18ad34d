"""The faults made on purpose, to see that the simulation finds them: a checker that cannot fail is worth nothing.

Written down in `faults_disk`, `faults_reading`, `faults_owning`, `faults_policy`, `faults_backup`, `faults_restore`,
`faults_broker`, `faults_holding`, `faults_threads`, as `fault` says.
"""

from tests.simulation.faults.fault import FAULTS as FAULTS
from tests.simulation.faults.fault import Fault as Fault
