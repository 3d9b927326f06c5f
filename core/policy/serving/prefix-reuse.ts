/** A stream that takes over a cached prefix may drop this many of its positions; a stream that would drop more gets a copy. */
const maxDroppedPositions = 32

/**
 * How a new stream gets the first `length` positions of a cached prefix. `take`: its KV becomes the stream's and leaves the
 * cache. `copy`: it stays cached for streams that need more of it. `none`: the prefix is shorter than that.
 */
export function reuseOf(cachedLength: number, length: number): 'take' | 'copy' | 'none' {
  if (length > cachedLength) return 'none'
  return cachedLength - length <= maxDroppedPositions ? 'take' : 'copy'
}

/** A page that is loaded in place of one that is copied takes a read and a checksum: more than one must be saved. */
const minLoadedRows = 16

/** Whether a new stream loads rows that the slow tier has, rather than begin with fewer rows from the memory. */
export const loadsRather = (saved: number, inMemory: number): boolean => saved - inMemory >= minLoadedRows
