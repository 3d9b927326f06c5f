import type { ExpandingDevice } from '../../../../core/policy/pice/state.ts'
import type { Helper } from './helper.ts'

/** Idle helpers that do not differ in anything that plans depend on. */
export interface Alike {
  readonly known: ExpandingDevice
  /** Ascending by index. */
  readonly helpers: Helper[]
}

interface Place {
  readonly alike: Alike
  readonly key: string
  /** Of the smallest model. */
  readonly tpotS: number
}

/** The helpers without a job: sorted, and alike ones together, so that nothing looks at each of thousands. Mutable. */
export class IdleHelpers {
  /** The fastest first, then by index. */
  readonly #sorted: Helper[] = []
  readonly #alike = new Map<string, Alike>()
  readonly #places = new Map<Helper, Place>()

  /** @param helpers ascending by index */
  constructor(helpers: readonly Helper[]) {
    for (const helper of helpers) this.#place(helper).alike.helpers.push(helper)
    this.#sorted.push(...helpers)
    this.#sorted.sort((a, b) => this.#fasterFirst(a, b))
  }

  get count(): number {
    return this.#sorted.length
  }

  /** In the order in which they take jobs. */
  get fastestFirst(): readonly Helper[] {
    return this.#sorted
  }

  get groups(): Iterable<Alike> {
    return this.#alike.values()
  }

  alikeOf(helper: Helper): Alike {
    return this.#places.get(helper)!.alike
  }

  add(helper: Helper): void {
    const { helpers } = this.#place(helper).alike
    insert(helpers, helper, byIndex)
    insert(this.#sorted, helper, (a, b) => this.#fasterFirst(a, b))
  }

  /** One that is here. */
  remove(helper: Helper): void {
    const { alike, key } = this.#places.get(helper)!
    take(this.#sorted, helper, (a, b) => this.#fasterFirst(a, b))
    take(alike.helpers, helper, byIndex)
    if (alike.helpers.length === 0) this.#alike.delete(key)
    this.#places.delete(helper)
  }

  #place(helper: Helper): Place {
    const { idle, models } = helper
    const { device: _, ...shared } = idle
    const key = JSON.stringify(shared)
    const alike = this.#alike.get(key) ?? { known: idle, helpers: [] }
    const place = { alike, key, tpotS: models.speeds(false)[0]!.tpotS }
    this.#alike.set(key, alike)
    this.#places.set(helper, place)
    return place
  }

  #fasterFirst(a: Helper, b: Helper): number {
    return this.#places.get(a)!.tpotS - this.#places.get(b)!.tpotS || byIndex(a, b)
  }
}

const byIndex = (a: Helper, b: Helper): number => a.device.index - b.device.index

type Compare = (a: Helper, b: Helper) => number

/** The first place whose helper does not come before this one. */
function placeIn(sorted: readonly Helper[], helper: Helper, compare: Compare): number {
  let low = 0
  let high = sorted.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if (compare(sorted[middle]!, helper) < 0) low = middle + 1
    else high = middle
  }
  return low
}

function insert(sorted: Helper[], helper: Helper, compare: Compare): void {
  sorted.splice(placeIn(sorted, helper, compare), 0, helper)
}

function take(sorted: Helper[], helper: Helper, compare: Compare): void {
  sorted.splice(placeIn(sorted, helper, compare), 1)
}
