import type { KvUsage } from '../../core/policy/admission/kv.ts'
import { pageRows } from '../../core/policy/serving/write-through.ts'
import type { PageOwner } from './page-keys.ts'

/** Leading rows of a page as `Sequence.readRows` gives them. */
export interface Page {
  readonly rows: number
  readonly values: Float32Array
}

/** Values of the page if it had all of its rows. */
export const fullValuesOf = ({ rows, values }: Page): number => (values.length / rows) * pageRows

/** KV outside the memory that steps compute with, in pages of streams. Full or failing, it loses pages, but never throws. */
export interface SlowTier {
  readonly usage: KvUsage
  /** Whether pages can be left to later streams. */
  readonly isLasting: boolean
  /** Zeroed memory for a page of so many values, to be saved: with its values or the first of them. */
  allocate(values: number): Float32Array
  /** Gives memory that no page uses back to the system, until it is used again. */
  releaseFree(): void
  /**
   * A place for the pages of one stream, which is charged as they are saved.
   * @param of whose they are, if they may be left to a later stream
   */
  open(of?: PageOwner): SlowCopy
  /**
   * The pages that an earlier stream of the same owner and model has left, also before a restart of the bridge.
   * @param keys of the first pages of the stream, which gets as many of them as there are
   * @returns undefined where there are none
   */
  take(of: PageOwner, keys: readonly string[]): TakenPages | undefined
  /** Deletes what streams of these owners have left. */
  purge(isOwned: (owner: string) => boolean): void
  close(): Promise<void>
}

export interface TakenPages {
  readonly copy: SlowCopy
  readonly pages: number
}

/** The pages of one stream. Calls are carried out in their order. */
export interface SlowCopy {
  readonly bytes: number
  /**
   * Saves the rows of page `at`, in place of what it held. The tier keeps `values`, wherever they were allocated.
   * @param key of a complete page, by which a later stream finds it; absent: none does
   * @returns whether they were saved; where they were not, the page is lost
   */
  save(at: number, page: Page, key?: string): Promise<boolean>
  /** @returns undefined where the page is lost: never saved, altered, unreadable */
  load(at: number): Promise<Page | undefined>
  /** Frees the pages. No call may follow. */
  release(): Promise<void>
  /** Leaves the pages to a later stream for a while, if the tier outlives streams; else as `release`. No call may follow. */
  leave(): Promise<void>
}
