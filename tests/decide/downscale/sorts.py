"""The sorts that Go's pdqsort is made of, over any relation "goes before", also one that is not transitive."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")
Before = Callable[[T, T], bool]
Sort = Callable[[Sequence[T], "Before[T]"], list[T]]


def insertion_sort(items: Sequence[T], before: Before[T]) -> list[T]:
    """What Go's sort.Sort does with up to 12 elements."""
    result = list(items)
    for index in range(1, len(result)):
        at = index
        while at > 0 and before(result[at], result[at - 1]):
            result[at], result[at - 1] = result[at - 1], result[at]
            at -= 1
    return result


def quick_sort(items: Sequence[T], before: Before[T]) -> list[T]:
    """Partitions by the middle element, and sets aside what is equal to a pivot seen before, as pdqsort does."""
    return _quick(list(items), before, None)


def _quick(items: list[T], before: Before[T], last: T | None) -> list[T]:
    if len(items) < 3:
        return insertion_sort(items, before)
    pivot = items.pop(len(items) // 2)
    if last is not None and not before(last, pivot):
        equal = [one for one in items if not before(pivot, one)]
        return [pivot, *equal, *_quick([one for one in items if before(pivot, one)], before, last)]
    left = [one for one in items if before(one, pivot)]
    right = [one for one in items if not before(one, pivot)]
    return [*_quick(left, before, last), pivot, *_quick(right, before, pivot)]


def heap_sort(items: Sequence[T], before: Before[T]) -> list[T]:
    """What pdqsort falls back to."""
    heap = list(items)
    for root in range(len(heap) // 2 - 1, -1, -1):
        _sift_down(heap, root, len(heap), before)
    for end in range(len(heap) - 1, 0, -1):
        heap[0], heap[end] = heap[end], heap[0]
        _sift_down(heap, 0, end, before)
    return heap


def _sift_down(heap: list[T], root: int, end: int, before: Before[T]) -> None:
    while (child := 2 * root + 1) < end:
        if child + 1 < end and before(heap[child], heap[child + 1]):
            child += 1
        if not before(heap[root], heap[child]):
            return
        heap[root], heap[child] = heap[child], heap[root]
        root = child


ALL = (insertion_sort, quick_sort, heap_sort)
