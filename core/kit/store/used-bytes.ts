import type { Store } from './migrate.ts'

/** Bytes of the pages that a database uses: those that it has freed are used again before it grows. */
export function usedBytesOf(store: Store): () => number {
  const used = store
    .prepare<[], number>(
      `SELECT (pages.page_count - free.freelist_count) * size.page_size
       FROM pragma_page_count() pages, pragma_freelist_count() free, pragma_page_size() size`,
    )
    .pluck()
  return () => used.get() ?? 0
}
