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
  /** Reads the logits after the last id ([vocab], valid only until it returns, or returns a promise). Absent: they are not computed. */
  readonly read?: ((logits: Float32Array) => void | Promise<void>) | undefined
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
          return { sequence: stacks[at]!.parts[1]!, states: shallow[at]!, select: item.read ? 'last' : 'none' }
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
        const logits = await chain.step(
          answers.map(({ sequence, ids, read }) => ({ sequence, ids, select: read ? 'last' : 'none' })),
        )
        let row = 0
        return Promise.all(
          answers.map(({ read }) => {
            if (!read) return computed
            const from = row++ * vocab
            return attempt(() => read(logits.subarray(from, from + vocab)))
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
  const reading = items.flatMap((item, at) => (isTokens(item) && item.read ? [{ item, read: item.read, states: deep[at]! }] : []))
  if (reading.length === 0) return new Map()
  const states = concatStates(
    reading.map((each) => each.states),
    reading[0]!.states.width,
  )
  try {
    const results = await Promise.all(await head.read(states, (logits, row) => attempt(() => reading[row]!.read(logits))))
    return new Map(reading.map(({ item }, row) => [item, results[row]!]))
  } catch (error) {
    return new Map(reading.map(({ item }) => [item, { kind: 'failed', error }]))
  }
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
