"""Keys and values of what a model has read, in room that doubles instead of being copied anew."""

import torch

_FIRST_ROOM = 128


class Growing:
    """One layer's keys and values; appending to them copies only when the room is full."""

    keys: torch.Tensor | None = None
    """What was appended so far: rows, heads, columns, width; a view of the room."""
    values: torch.Tensor | None = None
    """The same of the values."""
    _room_keys: torch.Tensor
    _room_values: torch.Tensor

    def append(self, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Add columns; all that is there now."""
        used = 0 if self.keys is None or not self.keys.numel() else self.keys.shape[-2]
        end = used + keys.shape[-2]
        if used == 0 or end > self._room_keys.shape[-2]:
            room = max(2 * end, _FIRST_ROOM)
            self._room_keys = _with_room(self.keys, keys, room)
            self._room_values = _with_room(self.values, values, room)
        self._room_keys[..., used:end, :] = keys
        self._room_values[..., used:end, :] = values
        self.keys = self._room_keys[..., :end, :]
        self.values = self._room_values[..., :end, :]
        return self.keys, self.values

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        """Keep some rows; room beyond the filled part is kept as well."""
        if self.keys is None:
            return
        used = self.keys.shape[-2]
        self._room_keys = self._room_keys.index_select(0, indices)
        self._room_values = self._room_values.index_select(0, indices)
        self.keys = self._room_keys[..., :used, :]
        self.values = self._room_values[..., :used, :]


class Cache:
    """The layers of one model, under the names that the library's own cache has."""

    def __init__(self, layers: int) -> None:
        self.layers = [Growing() for _ in range(layers)]

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        """Keep some rows."""
        for layer in self.layers:
            layer.batch_select_indices(indices)


def _with_room(filled: torch.Tensor | None, new: torch.Tensor, room: int) -> torch.Tensor:
    *head, _, width = new.shape
    grown = new.new_empty((*head, room, width))
    if filled is not None and filled.numel():
        grown[..., : filled.shape[-2], :] = filled
    return grown
