"""Texts that many rows have in common, kept once and known by their places."""


class Shared:
    """Texts, and how many rows have each. A place is used again when no row has its text any more."""

    def __init__(self) -> None:
        self.texts: list[bytes] = []  # by place
        self._places: dict[bytes, int] = {}
        self._uses: list[int] = []
        self._free: list[int] = []

    def take(self, text: bytes, uses: int = 1) -> int:
        """Return the text's place, for so many rows more."""
        place = self._places.get(text)
        if place is None:
            place = self._free.pop() if self._free else len(self.texts)
            if place == len(self.texts):
                self.texts.append(text)
                self._uses.append(0)
            self.texts[place] = text
            self._places[text] = place
        self._uses[place] += uses
        return place

    def drop(self, place: int) -> None:
        """Note that a row less has the text."""
        self._uses[place] -= 1
        if not self._uses[place]:
            del self._places[self.texts[place]]
            self.texts[place] = b""
            self._free.append(place)

    def used(self) -> list[tuple[int, bytes]]:
        """Return the places and texts that any row has."""
        return [(place, text) for text, place in self._places.items()]
