/**
 * Indices by key, the least first; equal ones in their order. Infinite keys are left out. A plan needs only the first few of
 * many streams: this takes O(n + taken · log n).
 */
export function* ascending(keys: Float64Array): Generator<number> {
  const heap = new Int32Array(keys.length)
  let size = 0
  for (let at = 0; at < keys.length; at += 1) if (keys[at]! < Number.POSITIVE_INFINITY) heap[size++] = at
  for (let node = (size >> 1) - 1; node >= 0; node -= 1) sink(heap, size, node, keys)
  while (size > 0) {
    yield heap[0]!
    size -= 1
    heap[0] = heap[size]!
    sink(heap, size, 0, keys)
  }
}

function sink(heap: Int32Array, size: number, from: number, keys: Float64Array): void {
  const moved = heap[from]!
  const key = keys[moved]!
  const isBefore = (at: number, thanAt: number, thanKey: number) => {
    const difference = keys[at]! - thanKey
    return difference < 0 || (difference === 0 && at < thanAt)
  }
  let node = from
  for (let child = 2 * node + 1; child < size; child = 2 * node + 1) {
    const right = child + 1
    if (right < size && isBefore(heap[right]!, heap[child]!, keys[heap[child]!]!)) child = right
    if (!isBefore(heap[child]!, moved, key)) break
    heap[node] = heap[child]!
    node = child
  }
  heap[node] = moved
}
