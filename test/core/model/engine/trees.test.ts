import { afterAll, describe, expect, it } from 'vitest'
import { seededRandom } from '../../../../core/kit/base/random.ts'
import type { Part, Sequence } from '../../../../core/model/engine/contract.ts'
import { openBundle } from '../../../../core/model/engine/open-bundle.ts'
import { concatStates, type States, sliceStates } from '../../../../core/wire/protocol/states.ts'
import { buildDrafterBundle } from '../../../support/drafter-bundle.ts'
import { largestDifference } from '../../../support/random-states.ts'
import { shared } from '../../../support/shared.ts'
import { tempDir } from '../../../support/temp-dir.ts'

const vocab = 160
/** A row computed alone and in a batch may differ by a step of fp16 at the magnitude of these rows. */
const tolerance = 4e-3

const dir = shared(tempDir)
const model = shared(async () =>
  openBundle(await buildDrafterBundle(dir.path), { parts: ['input', 'middle', 'adapter-paper'], threads: 1 }),
)
afterAll(() => model.release())

const random = seededRandom(21)
const below = (count: number) => Math.floor(random.next() * count)

/** Rows of one text through `input` and then `part`, in one go. */
async function fresh(part: Part, ids: readonly number[]): Promise<States> {
  const input = model.part('input')
  const [first, second] = [input.createSequence(), part.createSequence()]
  const [shallow] = await input.step([{ sequence: first, ids, select: 'all' }])
  const [states] = await part.step([{ sequence: second, states: shallow!, select: 'all' }])
  first.release()
  second.release()
  return states!
}

/** A tree through `input` and a part that grows step by step, packed with other sequences. */
class GrownTree {
  readonly ids: number[] = []
  readonly parents: number[] = []
  readonly #part: Part
  readonly #input = model.part('input')
  readonly shallow: Sequence
  readonly sequence: Sequence
  readonly #beside: Sequence
  readonly #besideInput: Sequence
  #rows: States[] = []

  constructor(part: Part) {
    this.#part = part
    this.shallow = this.#input.createSequence()
    this.sequence = part.createSequence()
    this.#besideInput = this.#input.createSequence()
    this.#beside = part.createSequence()
  }

  async add(ids: readonly number[], parents?: readonly number[], alone = true): Promise<void> {
    const start = this.ids.length
    const other = [below(vocab), below(vocab)]
    const items = [
      { sequence: this.shallow, ids, parents, select: 'all' as const },
      ...(alone ? [] : [{ sequence: this.#besideInput, ids: other, select: 'all' as const }]),
    ]
    const shallow = await this.#input.step(items)
    const deep = await this.#part.step([
      { sequence: this.sequence, states: shallow[0]!, parents, select: 'all' },
      ...(alone ? [] : [{ sequence: this.#beside, states: shallow[1]!, select: 'all' as const }]),
    ])
    this.#rows.push(deep[0]!)
    this.ids.push(...ids)
    this.parents.push(...(parents ?? ids.map((_, at) => start + at - 1)))
  }

  row(row: number): States {
    const all = concatStates(this.#rows, this.#rows[0]!.width)
    return sliceStates(all, row, row + 1)
  }

  pathTo(row: number): number[] {
    return row < 0 ? [] : [...this.pathTo(this.parents[row]!), row]
  }

  release(): void {
    for (const sequence of [this.shallow, this.sequence, this.#beside, this.#besideInput]) sequence.release()
  }
}

async function expectEveryPath(tree: GrownTree, part: Part): Promise<void> {
  for (const row of tree.ids.keys()) {
    const path = tree.pathTo(row)
    const alone = await fresh(
      part,
      path.map((at) => tree.ids[at]!),
    )
    const expected = sliceStates(alone, alone.rows - 1, alone.rows)
    expect(largestDifference(tree.row(row), expected), `row ${row} of [${tree.parents}]`).toBeLessThan(tolerance)
  }
}

describe.each(['middle', 'adapter-paper'] as const)('a tree of rows through input and %s', (name) => {
  it('computes every row from its own path only, whatever other branches the tree has', async () => {
    const part = model.part(name)
    for (let at = 0; at < 6; at++) {
      const tree = new GrownTree(part)
      await tree.add(Array.from({ length: 1 + below(6) }, () => below(vocab)))
      for (let step = 0; step < 3; step++) {
        const { length } = tree.ids
        const count = 1 + below(5)
        const parents = Array.from({ length: count }, (_, more) => below(length + more + 1) - 1)
        await tree.add(
          parents.map(() => below(vocab)),
          parents,
          at % 2 === 0,
        )
      }
      await tree.add([below(vocab), below(vocab)], undefined, at % 2 === 1)
      await expectEveryPath(tree, part)
      tree.release()
    }
  })

  it('is linear again after gathering one path', async () => {
    const part = model.part(name)
    const tree = new GrownTree(part)
    await tree.add([5, 6, 7])
    await tree.add([8, 9, 10, 11, 12], [2, 2, 1, 4, 3])
    expect([tree.sequence.length, tree.sequence.line]).toEqual([8, 4])
    for (const sequence of [tree.shallow, tree.sequence]) sequence.gather(3, [4, 6])
    expect([tree.sequence.length, tree.sequence.line]).toEqual([5, 5])
    const [shallow] = await model.part('input').step([{ sequence: tree.shallow, ids: [13], select: 'all' }])
    const [after] = await part.step([{ sequence: tree.sequence, states: shallow!, select: 'all' }])
    const expected = await fresh(part, [5, 6, 7, 9, 11, 13])
    expect(largestDifference(after!, sliceStates(expected, 5, 6))).toBeLessThan(tolerance)
    tree.release()
  })

  it('rejects parents that do not exist and copies of branching rows', async () => {
    const part = model.part(name)
    const tree = new GrownTree(part)
    await tree.add([5, 6, 7])
    await expect(tree.add([8], [3])).rejects.toThrow(RangeError)
    const rootless = new GrownTree(part)
    await expect(rootless.add([8, 9], [-1, -1])).rejects.toThrow(/cannot branch/)
    rootless.release()
    expect(tree.sequence.length).toBe(3)
    tree.shallow.truncate(3)
    await tree.add([8, 9], [1, 1])
    const copy = part.createSequence()
    expect(() => copy.copyPrefix(tree.sequence, 4)).toThrow(RangeError)
    copy.copyPrefix(tree.sequence, 3)
    expect(() => tree.sequence.gather(4, [4])).toThrow(RangeError)
    expect([copy.length, tree.sequence.length]).toEqual([3, 5])
    copy.release()
    tree.release()
  })
})
