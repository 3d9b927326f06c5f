import { type States, sliceStates } from '../../wire/protocol/states.ts'
import { featureInputs, graphInputs, kvNames, type StatesInputNames } from '../bundle/graph-io.ts'
import { type Dims, encoder } from '../bundle/manifest.ts'
import type { GraphForm } from '../bundle/part-graph.ts'
import type { Sequence, StepItem } from './contract.ts'
import type { KvBuffers } from './kv-buffers.ts'
import { addBranches, addGrouped, addOwnRows, addPacking } from './packing-inputs.ts'
import { attendedRows, evenRows, maxGroupedRows, maxPadRows, type Packing, packGrouped, packItems } from './part-packing.ts'
import { PartSessions, type PartSource } from './part-sessions.ts'
import { type RecurrentItems, RecurrentSteps } from './recurrent-steps.ts'
import type { Runtime, Tensor } from './runtime.ts'
import { KvSequence } from './sequence.ts'
import { KvPool } from './sequence-memory.ts'
import { SerialQueue } from './serial-queue.ts'
import { checkStates, statesInputs } from './states-tensors.ts'
import { rowsOf, stepPieces } from './step-pieces.ts'

/** Names of the KV tensors of one slot, by layer. */
type KvNames = readonly ReturnType<typeof kvNames>[]

/** The outputs of a step besides the KV, and the conversion to its result after the run. */
interface StepOutputs<Result> {
  readonly tensors: ReadonlyMap<string, Tensor>
  /** Of each item. */
  finish(returned: Packing['returned']): Result[]
}

/** A part with attention: packed steps over sequences. */
export class AttentionPart {
  readonly source: PartSource
  readonly dims: Dims
  readonly #sessions: PartSessions
  readonly #pool: KvPool
  /** KV memory of unused slots. */
  readonly #paddingSlot: KvBuffers
  /** Undefined where every layer attends. */
  readonly #recurrence: RecurrentSteps | undefined
  /** Cached by slot: a step needs hundreds of names. */
  readonly #names: KvNames[] = []
  readonly #queue = new SerialQueue()

  /** @param maxFreeKvBytes as of KvPool */
  constructor(source: PartSource, dims: Dims, maxFreeKvBytes?: number) {
    const { kvHeads, headDim, recurrent } = source.manifest
    const shape = { layers: attendingLayers(source), kvHeads, headDim }
    this.source = source
    this.dims = dims
    this.#sessions = new PartSessions(source)
    this.#pool = new KvPool(source.runtime, shape, maxFreeKvBytes)
    this.#paddingSlot = this.#pool.acquire(1)
    this.#recurrence = recurrent && new RecurrentSteps(source.runtime, recurrent)
  }

  get runtime(): Runtime {
    return this.source.runtime
  }

  /** Compiles the graph for this number of sequences before the first step needs it. */
  async prepare(sequences: number, form: GraphForm): Promise<void> {
    await this.#sessions.open(sequences, form)
  }

  createSequence(): Sequence {
    const kv = new KvSequence(this.#pool, this.dims.contextLimit)
    return this.#recurrence?.createSequence(kv) ?? kv
  }

  /**
   * Runs one packed step after the steps before it. The sequences grow only if it succeeds.
   * @param outputs creates the outputs for a number of returned rows; their tensors are released after the run
   * @param join the results of one item's rows, where a device computes them in pieces
   * @returns a result per item
   */
  step<Result>(
    items: readonly StepItem[],
    outputs: (rows: number) => StepOutputs<Result>,
    join: (pieces: readonly Result[]) => Result,
  ): Promise<Result[]> {
    const maxRows = this.runtime.device?.maxRows
    return this.#queue.run(() => {
      if (this.#recurrence) return this.#recurrence.run(items, (given, recurrent) => this.#step(given, outputs, recurrent))
      if (maxRows === undefined || items.every((item) => rowsOf(item) <= maxRows)) return this.#step(items, outputs)
      return this.#stepInPieces(items, maxRows, outputs, join)
    })
  }

  /** Gives KV memory that no sequence uses back to the system. */
  releaseFree(): void {
    this.#pool.releaseFree()
    this.#recurrence?.states.releaseFree()
  }

  async release(): Promise<void> {
    await this.#queue.idle()
    await this.#sessions.release()
    this.#paddingSlot.release()
    this.#recurrence?.states.release()
    await this.#pool.release()
  }

  /** The first pieces of every item, then the second ones of those that have more. */
  async #stepInPieces<Result>(
    items: readonly StepItem[],
    maxRows: number,
    outputs: (rows: number) => StepOutputs<Result>,
    join: (pieces: readonly Result[]) => Result,
  ): Promise<Result[]> {
    const pieces = items.map((item) => stepPieces(item, maxRows))
    const lengths = items.map(({ sequence }) => sequence.length)
    const results = items.map((): Result[] => [])
    items.forEach((item, at) => {
      this.#own(item.sequence).requireWithinContext(lengths[at]! + rowsOf(item))
    })
    try {
      for (let round = 0; round < Math.max(...pieces.map(({ length }) => length)); round++) {
        const due = [...pieces.keys()].filter((at) => round < pieces[at]!.length)
        const stepped = await this.#step(
          due.map((at) => pieces[at]![round]!),
          outputs,
        )
        due.forEach((at, of) => {
          results[at]!.push(stepped[of]!)
        })
      }
    } catch (error) {
      items.forEach(({ sequence }, at) => {
        sequence.truncate(lengths[at]!)
      })
      throw error
    }
    return results.map((each) => join(each))
  }

  async #step<Result>(
    items: readonly StepItem[],
    outputs: (rows: number) => StepOutputs<Result>,
    recurrent?: RecurrentItems,
  ): Promise<Result[]> {
    if (items.length === 0) throw new RangeError('a step without items')
    const sequences = items.map(({ sequence }) => this.#own(sequence))
    if (new Set(sequences).size < sequences.length) throw new Error('a step has the same sequence twice')
    const counts = items.map((item) => this.#countRows(item))
    sequences.forEach((sequence, slot) => {
      sequence.requireWithinContext(sequence.length + counts[slot]!)
    })
    const grown = sequences.map((sequence, slot) => sequence.extended(counts[slot]!, items[slot]?.parents))
    const branching = grown.some((rows) => rows.branches)
    // The attention operator treats a run without a past as a first prompt, whose rows cannot branch.
    if (grown.some((rows, slot) => rows.branches && sequences[slot]!.length === 0))
      throw new RangeError('the first rows of a sequence cannot branch')
    const { name, manifest, padsAttention } = this.source
    // The kernels whose bits depend on the number of rows are the CPU's.
    const pads = padsAttention && !this.runtime.device
    sequences.forEach((sequence, slot) => {
      sequence.reserve(sequence.length + counts[slot]!)
    })
    const group = branching ? undefined : this.#groupOf(sequences, counts)
    const work = items.map(({ select }, slot) => {
      const [rows, past] = [counts[slot]!, sequences[slot]!.length]
      const attended = pads ? attendedRows(past, rows, manifest.headDim, this.dims.contextLimit) : rows
      return { rows, past, attended, select: name === 'input' ? ('all' as const) : select }
    })
    const padRows = this.#padRows(counts)
    const form = branching ? 'tree' : group === undefined ? 'line' : 'grouped'
    // Without `keep`, the row of an unused slot is the pad row.
    const { session, slots } = await this.#sessions.open(items.length + (padsAttention ? 0 : padRows), form)
    const packing =
      group === undefined
        ? packItems(work, slots, padRows)
        : packGrouped(work, slots, padRows, { group, kvHeads: manifest.kvHeads })
    const inputs = this.#rowInputs(items, packing.rows)
    const select = this.#padSelect(packing.select)
    addPacking(this.source, inputs, packing, select, slots)
    if (branching) addBranches(this.source, inputs, grown, work, slots)
    if (group !== undefined) addGrouped(this.source, inputs, work, slots, group)
    if (recurrent) addOwnRows(this.source, inputs, packing.rows, counts, slots)
    const result = outputs(name === 'input' ? packing.rows : select.length)
    const own = [...inputs.values(), ...result.tensors.values()]
    const results = new Map(result.tensors)
    const memories = sequences.map((sequence) => sequence.startStep())
    let appended = false
    try {
      await this.#pool.settled()
      for (let slot = 0; slot < slots; slot++)
        bindMemory(inputs, results, memories[slot] ?? this.#paddingSlot, this.#namesOf(slot))
      if (recurrent)
        for (let slot = 0; slot < slots; slot++) this.#recurrence?.states.bind(slot, recurrent.steps[slot], inputs, results)
      await session.run(inputs, results, packing.rows)
      appended = true
    } finally {
      for (const tensor of own) tensor.release()
      // Unused slots have processed a row of another sequence. On a device their next row takes its place.
      if (slots > items.length && !this.runtime.device) this.#paddingSlot.zero()
      if (slots > items.length) this.#recurrence?.states.zeroPadding()
      sequences.forEach((sequence, slot) => {
        sequence.finishStep(appended ? grown[slot] : undefined)
      })
    }
    if (name !== 'input' || !recurrent) return result.finish(packing.returned)
    return result.finish(packing.returned.map(([from, to], at) => [from + recurrent.replayed[at]!, to] as const))
  }

  /** Query heads of a group, where attention reads each as a row of its own; undefined: it reads the heads of a row together. */
  #groupOf(sequences: readonly KvSequence[], counts: readonly number[]): number | undefined {
    const group = this.source.groupedHeads
    if (group === undefined || sequences.length === 1) return undefined
    // The keys of the other heads' rows lie beyond the sequence's own, and without a past the operator takes no mask.
    const fits = sequences.every(({ length, capacity }, slot) => {
      const rows = counts[slot]!
      return length > 0 && rows <= maxGroupedRows && length + group * rows <= capacity + maxPadRows
    })
    return fits ? group : undefined
  }

  /** Packed rows beside those of the items: see `needsEvenRows`. */
  #padRows(counts: readonly number[]): number {
    const rows = counts.reduce((sum, count) => sum + count, 0)
    if (!this.source.needsEvenRows || (!this.source.padsAttention && rows > 1)) return 0
    return evenRows(rows) - rows
  }

  #namesOf(slot: number): KvNames {
    this.#names[slot] ??= Array.from({ length: attendingLayers(this.source) }, (_, layer) => kvNames(slot, layer))
    return this.#names[slot]
  }

  #own(sequence: Sequence): KvSequence {
    if (sequence instanceof KvSequence && sequence.belongsTo(this.#pool)) return sequence
    throw new Error(`part ${this.source.name} was given a sequence of another part`)
  }

  #countRows(item: StepItem): number {
    const rows = 'ids' in item ? item.ids.length : item.states.rows
    if (rows === 0) throw new RangeError('a step without new rows')
    if ('states' in item) {
      checkStates(item.states, this.dims.hidden)
      if (item.states.rows !== rows) throw new RangeError(`${item.states.rows} rows of states for ${rows} ids`)
      this.#checkFeatures(item.features, rows)
    }
    return rows
  }

  #checkFeatures(features: States | undefined, rows: number): void {
    const { name, manifest } = this.source
    if ((features !== undefined) !== (manifest.features === true))
      throw new RangeError(features ? `part ${name} takes no features` : `part ${name} needs features as well as states`)
    if (!features) return
    checkStates(features, this.dims.hidden)
    if (features.rows !== rows) throw new RangeError(`${features.rows} rows of features for ${rows} rows of states`)
  }

  /** @param rows packed rows; those beyond the items' repeat the first */
  #rowInputs(items: readonly StepItem[], rows: number): Map<string, Tensor> {
    const { name, manifest } = this.source
    if (name === 'input' || name === 'whole' || name === encoder) return this.#idsInputs(items, rows)
    const states = this.#statesInputs(items.map(statesOf), rows, graphInputs)
    const features = items.flatMap((item) => ('features' in item && item.features ? [item.features] : []))
    return new Map([
      ...(manifest.draftHead ? this.#idsInputs(items, rows) : []),
      ...states,
      ...(features.length === 0 ? [] : this.#statesInputs(features, rows, featureInputs)),
    ])
  }

  #idsInputs(items: readonly StepItem[], rows: number): Map<string, Tensor> {
    const given = items.flatMap(idsOf)
    const stray = given.find((id) => !(id >= 0 && id < this.dims.vocab))
    if (stray !== undefined) throw new RangeError(`token ${stray} is not in the vocabulary of ${this.dims.vocab}`)
    const ids = BigInt64Array.from({ length: rows }, (_, row) => BigInt(given[row] ?? given[0]!))
    return new Map([[graphInputs.ids, this.runtime.tensor('int64', [1, rows], ids)]])
  }

  #statesInputs(blocks: readonly States[], rows: number, names: StatesInputNames): Map<string, Tensor> {
    const given = blocks.reduce((sum, block) => sum + block.rows, 0)
    const padding = Array.from({ length: rows - given }, () => sliceStates(blocks[0]!, 0, 1))
    return statesInputs(this.runtime, [...blocks, ...padding], this.dims.hidden, names)
  }

  /** Adds row 0 if too few rows are selected: `peak` of no rows has another shape, and `needsEvenRows` covers the head of `whole`. */
  #padSelect(select: BigInt64Array): BigInt64Array {
    const { name, needsEvenRows } = this.source
    const rows = name !== 'whole' ? Math.max(1, select.length) : needsEvenRows ? evenRows(select.length) : select.length
    if (select.length === rows) return select
    const padded = new BigInt64Array(rows)
    padded.set(select)
    return padded
  }
}

/** Layers of the part that have KV. */
const attendingLayers = ({ manifest: { layers, recurrent } }: PartSource) => layers[1] - layers[0] - (recurrent?.layers ?? 0)

/** Binds past and present to the same memory, so that new rows are appended in place. */
function bindMemory(inputs: Map<string, Tensor>, outputs: Map<string, Tensor>, memory: KvBuffers, names: KvNames): void {
  if (memory.failure !== undefined) throw memory.failure
  const { keys, values } = memory
  names.forEach((name, layer) => {
    const [key, value] = [keys[layer]!, values[layer]!]
    inputs.set(name.pastKey, key)
    inputs.set(name.pastValue, value)
    outputs.set(name.presentKey, key)
    outputs.set(name.presentValue, value)
  })
}

function idsOf(item: StepItem): readonly number[] {
  if ('ids' in item) return item.ids
  throw new Error('a part that takes token ids was given states')
}

function statesOf(item: StepItem): States {
  if ('states' in item) return item.states
  throw new Error('a part that takes states was given token ids')
}
