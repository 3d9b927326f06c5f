import { createHash } from 'node:crypto'
import { pageRows } from '../../core/policy/serving/write-through.ts'

/** Of a key, in bytes. */
export const pageKeyBytes = 16

/** Whose pages they are, and what computed them. */
export interface PageOwner {
  /** Model, layout and precision of the rows: under another name the same ids have other rows. */
  readonly model: string
  readonly owner: string
}

/**
 * Names of the pages of an answer: a hash of the model, the owner and all ids from the first to the page's last. Pages of the same
 * key hold the same rows, of the same owner.
 */
export class PageKeys implements PageOwner {
  readonly model: string
  readonly owner: string
  readonly #ids: readonly number[]
  readonly #keys: string[] = []

  /** @param ids of the rows, which grow */
  constructor({ model, owner }: PageOwner, ids: readonly number[]) {
    this.model = model
    this.owner = owner
    this.#ids = ids
  }

  /** Those of the first complete pages, in hexadecimal. */
  first(pages: number): readonly string[] {
    for (let page = this.#keys.length; page < pages; page++) {
      const before = this.#keys.at(-1) ?? JSON.stringify([this.model, this.owner])
      const ids = Uint32Array.from(this.#ids.slice(page * pageRows, (page + 1) * pageRows))
      this.#keys.push(
        createHash('sha256')
          .update(before)
          .update(ids)
          .digest('hex')
          .slice(0, 2 * pageKeyBytes),
      )
    }
    return this.#keys.slice(0, pages)
  }

  at(page: number): string {
    return this.first(page + 1)[page]!
  }
}
