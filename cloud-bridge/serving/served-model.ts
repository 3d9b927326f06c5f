import type { Chain, Part, Sequence, StepItem } from '../../core/model/engine/contract.ts'
import { SerialQueue } from '../../core/model/engine/serial-queue.ts'
import type { SharedHead } from '../../core/model/engine/shared-head.ts'
import { StackedSequence, sequenceBytesOf } from '../../core/model/engine/stacked-sequence.ts'
import { concatStates, type States } from '../../core/wire/protocol/states.ts'

/** Hidden states that pass the middle. */
export type RowItem = Extract<StepItem, { states: States }>

/** Token ids that pass the whole model. */
export interface TokenItem {
  readonly sequence: Sequence
  readonly ids: readonly number[]
  /** Logits are read after so many of the last ids; absent: after the last one. */
  readonly readRows?: number | undefined
  /**
   * Reads the logits after an id ([vocab], valid only until it returns, or returns a promise). Absent: they are not computed.
   * @param at of the id in `ids`
   */
  readonly read?: ((logits: Float32Array, at: number) => void | Promise<void>) | undefined
}

export type ModelItem = RowItem | TokenItem

/** `failed`: the rows of a token item are in its sequence, but its logits could not be computed or read. */
export type ItemResult =
  | { readonly kind: 'states'; readonly states: States }
  | { readonly kind: 'tokens' }
  | { readonly kind: 'failed'; readonly error: unknown }

/** The sequences of one kind of stream. */
export interface SequenceKind {
  create(): Sequence
  /** KV of one position in all parts that the stream passes. */
  readonly bytesPerPosition: number
  /** See Sequence.fixedBytes. */
  readonly fixedBytes: number
}

/** What steps compute: rows of devices and tokens of whole answers, over one copy of the weights. */
export interface ServedModel {
  /** Undefined where the model has no cuts, so that no device can take part. */
  readonly rows: SequenceKind | undefined
  /** Undefined where only the middle is open. */
  readonly tokens: SequenceKind | undefined
  /**
   * One packed step.
   * @returns the results in the order of the items
   * @throws as Part.step; every sequence is as before then
   */
  step(items: readonly ModelItem[]): Promise<ItemResult[]>
}

/** Of a bridge without a bundle: no stream can be opened. */
export const noModel: ServedModel = {
  rows: undefined,
  tokens: undefined,
  async step() {
    throw new Error('a step was begun without a model')
  },
}

/** The middle, and around it the other parts of the whole model, rounded at the cuts as on the wire: the reference's rows. */
export function splitModel(middle: Part, around?: { readonly input: Part; readonly head: SharedHead }): ServedModel {
  const rows = kindOf(middle)
  if (!around) {
    return { rows, tokens: undefined, step: async (items) => (await middle.step(items.map(rowsOf))).map(resultOf) }
  }
  const { input, head } = around
  return {
    rows,
    tokens: {
      create: () => new StackedSequence([input.createSequence(), middle.createSequence()]),
      bytesPerPosition: kindOf(input).bytesPerPosition + rows.bytesPerPosition,
      fixedBytes: kindOf(input).fixedBytes + rows.fixedBytes,
    },
    async step(items) {
      const answers = items.filter(isTokens)
      const sequences = answers.map(({ sequence }) => sequence)
      const deep = await StackedSequence.step(sequences, 'the whole model', async (stacks) => {
        const shallow = await shallowOf(input, answers, stacks)
        const stepItems = items.map((item): StepItem => {
          if (!isTokens(item)) return item
          const at = answers.indexOf(item)
          return { sequence: stacks[at]!.parts[1]!, states: shallow[at]!, select: readIn(item) }
        })
        return middle.step(stepItems)
      })
      const read = await readLogits(items, deep, head)
      return items.map((item, at) => (isTokens(item) ? (read.get(item) ?? computed) : resultOf(deep[at]!)))
    },
  }
}

/** A model without cuts. */
export function wholeModel(chain: Chain): ServedModel {
  const { vocab } = chain.manifest.dims
  // The logits of a step are valid until the next one.
  const queue = new SerialQueue()
  return {
    rows: undefined,
    tokens: kindOf(chain),
    step: (items) =>
      queue.run(async () => {
        const answers = items.filter(isTokens)
        if (answers.length < items.length) throw new Error('a model without cuts was given hidden states')
        const logits = await chain.step(answers.map((item) => ({ sequence: item.sequence, ids: item.ids, select: readIn(item) })))
        let row = 0
        return Promise.all(
          answers.map(async (item) => {
            const reads = readIn(item).map((at) => {
              const from = row++ * vocab
              return attempt(() => item.read!(logits.subarray(from, from + vocab), at))
            })
            return (await Promise.all(reads)).find(({ kind }) => kind === 'failed') ?? computed
          }),
        )
      }),
  }
}

function kindOf(of: { createSequence(): Sequence }): SequenceKind {
  const create = () => of.createSequence()
  return { create, ...sequenceBytesOf(create) }
}

const isTokens = (item: ModelItem): item is TokenItem => 'ids' in item

function rowsOf(item: ModelItem): RowItem {
  if (isTokens(item)) throw new Error('the middle was given token ids')
  return item
}

const resultOf = (states: States): ItemResult => ({ kind: 'states', states })

async function shallowOf(input: Part, items: readonly TokenItem[], stacks: readonly StackedSequence[]): Promise<States[]> {
  if (items.length === 0) return []
  return input.step(items.map(({ ids }, at) => ({ sequence: stacks[at]!.parts[0]!, ids, select: 'all' })))
}

/** The rows of all items are computed already, so a failure here is that of the items whose logits are read. */
async function readLogits(
  items: readonly ModelItem[],
  deep: readonly States[],
  head: SharedHead,
): Promise<ReadonlyMap<ModelItem, ItemResult>> {
  const reading = items.flatMap((item, at) => (isTokens(item) && item.read ? [{ item, states: deep[at]! }] : []))
  if (reading.length === 0) return new Map()
  const states = concatStates(
    reading.map((each) => each.states),
    reading[0]!.states.width,
  )
  const rows = reading.flatMap(({ item }) => readIn(item).map((at) => ({ item, at })))
  try {
    const results = await Promise.all(
      await head.read(states, (logits, row) => attempt(() => rows[row]!.item.read!(logits, rows[row]!.at))),
    )
    const byItem = new Map<ModelItem, ItemResult>()
    for (const [row, result] of results.entries()) {
      const { item } = rows[row]!
      if (byItem.get(item)?.kind !== 'failed') byItem.set(item, result)
    }
    return byItem
  } catch (error) {
    return new Map(reading.map(({ item }) => [item, { kind: 'failed', error }]))
  }
}

/** The ids after which logits are read, by their places. */
function readIn({ ids, read, readRows = 1 }: TokenItem): number[] {
  const count = read ? readRows : 0
  return Array.from({ length: count }, (_, row) => ids.length - count + row)
}

const computed: ItemResult = { kind: 'tokens' }

async function attempt(read: () => void | Promise<void>): Promise<ItemResult> {
  try {
    await read()
    return computed
  } catch (error) {
    return { kind: 'failed', error }
  }
}
