"""What the tests of the kernel share: a desk, and the two who play chess there."""

from tests.support.broker.chess_players import black as black
from tests.support.broker.chess_players import desk as desk
from tests.support.broker.chess_players import white as white
