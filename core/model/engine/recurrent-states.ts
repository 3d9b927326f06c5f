import { orThrow } from '../../kit/base/errors.ts'
import { convChannels } from '../bundle/architecture.ts'
import { recurrentNames } from '../bundle/graph-io.ts'
import { type RecurrentShape, stateValuesOf } from '../bundle/state-shape.ts'
import type { Runtime, Tensor } from './runtime.ts'

/** The state of a part's recurrent layers after some row of a sequence, in one block. See recurrentNames. */
export interface RecurrentState {
  readonly data: Float32Array
  /** By layer. */
  readonly conv: readonly Tensor[]
  readonly delta: readonly Tensor[]
}

/** Free states beyond this are given up. */
const maxFreeStates = 8

/** Memory for the states of one part's sequences. A state is zeroed before another sequence gets it. */
export class StatePool {
  /** Of one state. */
  readonly bytes: number
  /** Before the first row of every sequence: never written. */
  readonly initial: RecurrentState
  /** Of slots that no sequence uses. */
  readonly #padding: RecurrentState
  readonly #runtime: Runtime
  readonly #shape: RecurrentShape
  readonly #free: RecurrentState[] = []
  readonly #names: ReturnType<typeof recurrentNames>[][] = []
  #isReleased = false

  /** @throws BrimError OUT_OF_MEMORY */
  constructor(runtime: Runtime, shape: RecurrentShape) {
    this.#runtime = runtime
    this.#shape = shape
    this.bytes = stateValuesOf(shape) * Float32Array.BYTES_PER_ELEMENT
    this.initial = this.#create()
    this.#padding = this.#create()
  }

  /** @throws BrimError OUT_OF_MEMORY */
  acquire(): RecurrentState {
    return this.#free.pop() ?? this.#create()
  }

  recycle(state: RecurrentState): void {
    state.data.fill(0)
    if (!this.#isReleased && this.#free.length < maxFreeStates) this.#free.push(state)
    else releaseTensors(state)
  }

  /** Binds the state before and after a step; undefined: a slot that no sequence uses. */
  bind(
    slot: number,
    step: { readonly past: RecurrentState; readonly present: RecurrentState } | undefined,
    inputs: Map<string, Tensor>,
    outputs: Map<string, Tensor>,
  ): void {
    const { past, present } = step ?? { past: this.initial, present: this.#padding }
    this.#namesOf(slot).forEach((names, layer) => {
      inputs.set(names.pastConv, past.conv[layer]!)
      inputs.set(names.pastDelta, past.delta[layer]!)
      outputs.set(names.presentConv, present.conv[layer]!)
      outputs.set(names.presentDelta, present.delta[layer]!)
    })
  }

  /** The rows of another sequence have left a state there. */
  zeroPadding(): void {
    this.#padding.data.fill(0)
  }

  releaseFree(): void {
    for (const state of this.#free.splice(0)) releaseTensors(state)
  }

  release(): void {
    this.#isReleased = true
    this.releaseFree()
    for (const state of [this.initial, this.#padding]) releaseTensors(state)
  }

  #namesOf(slot: number) {
    this.#names[slot] ??= Array.from({ length: this.#shape.layers }, (_, layer) => recurrentNames(slot, layer))
    return this.#names[slot]
  }

  #create(): RecurrentState {
    const shape = this.#shape
    const values = stateValuesOf(shape)
    const data = orThrow(
      () => new Float32Array(values),
      'OUT_OF_MEMORY',
      `no memory for a recurrent state of ${Math.ceil((values * 4) / 2 ** 20)} MiB`,
      'fewer sequences at a time need less',
    )
    let at = 0
    const next = (dims: readonly number[]) => {
      const size = dims.reduce((product, dim) => product * dim, 1)
      at += size
      return this.#runtime.tensor('float32', dims, data.subarray(at - size, at))
    }
    const each = (dims: readonly number[]) => Array.from({ length: shape.layers }, () => next(dims))
    const conv = each([1, shape.taps - 1, convChannels(shape)])
    return { data, conv, delta: each([1, shape.valueHeads, shape.keyDim, shape.valueDim]) }
  }
}

function releaseTensors({ conv, delta }: RecurrentState): void {
  for (const tensor of [...conv, ...delta]) tensor.release()
}
