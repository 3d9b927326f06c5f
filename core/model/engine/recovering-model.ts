import { BrimError } from '../../kit/base/errors.ts'
import type { ShownComputing } from '../../wire/protocol/computing.ts'
import type { Manifest, PartName } from '../bundle/manifest.ts'
import type { Chain, Head, MedusaHeads, Part, StepItem } from './contract.ts'
import type { HeadName, LoadedModel } from './open-model.ts'
import { failureOf } from './provider.ts'
import { RecoveringSequence, type Recovery, type StepsOf } from './recovering-sequence.ts'
import type { Runtime } from './runtime.ts'
import type { Cut } from './states-tensors.ts'

export interface RecoveringOptions {
  /** On the device. */
  readonly model: LoadedModel
  /** What computes it. */
  readonly computing: ShownComputing
  /** Asked after a failure: a step may also fail for a reason of its own. */
  readonly isLost: () => Promise<boolean>
  readonly openOnCpu: () => Promise<LoadedModel>
  /** The CPU computes from now on. @returns what is shown of it */
  readonly onLost: (error: Error) => ShownComputing
}

/**
 * A model on a device. If the device is lost, the CPU computes on: sequences are computed again from the token ids and states
 * that they were given, and the step that failed is repeated, so that answers go on.
 */
export class RecoveringModel implements LoadedModel, Recovery {
  readonly #options: RecoveringOptions
  readonly #sequences = new Set<RecoveringSequence>()
  #model: LoadedModel
  #computing: ShownComputing
  #recovering: Promise<boolean> | undefined
  /** Of the lost model. */
  #releasing: Promise<void> | undefined

  constructor(options: RecoveringOptions) {
    this.#options = options
    this.#model = options.model
    this.#computing = options.computing
  }

  get type(): LoadedModel['type'] {
    return this.#model.type
  }

  get manifest(): Manifest {
    return this.#model.manifest
  }

  get computing(): ShownComputing {
    return this.#computing
  }

  part(name: PartName): Part {
    const { manifest } = this.#model.part(name)
    return { name, manifest, ...this.#steps((model) => model.part(name)) }
  }

  head(name?: HeadName): Head {
    this.#model.head(name)
    return { logits: (states, memory) => this.attempt((model) => model.head(name).logits(states, memory)) }
  }

  medusa(): MedusaHeads {
    const { heads, tree } = this.#model.medusa()
    return { heads, tree, guess: (deep) => this.attempt((model) => model.medusa().guess(deep)) }
  }

  chain({ cuts }: { readonly cuts: Cut }): Chain {
    const stepsOf = (model: LoadedModel): StepsOf<Float32Array> => {
      const chain = model.chain({ cuts })
      return {
        createSequence: () => chain.createSequence(),
        step: (items) => chain.step(items.filter(takesIds)),
      }
    }
    return { manifest: this.manifest, ...this.#steps(stepsOf) }
  }

  releaseFree(): void {
    this.#model.releaseFree()
  }

  async release(): Promise<void> {
    await this.#recovering?.catch(() => {})
    await Promise.all([this.#model.release(), this.#releasing])
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.release()
  }

  async attempt<Result>(compute: (model: LoadedModel) => Promise<Result>): Promise<Result> {
    const model = this.#model
    try {
      return await compute(model)
    } catch (error) {
      if (model === this.#model && !(await this.#recover(error))) throw error
      return compute(this.#model)
    }
  }

  #steps<Result>(stepsOf: (model: LoadedModel) => StepsOf<Result>): StepsOf<Result> {
    return {
      createSequence: () => {
        const sequence = new RecoveringSequence(this, stepsOf, stepsOf(this.#model).createSequence(), () =>
          this.#sequences.delete(sequence),
        )
        this.#sequences.add(sequence)
        return sequence
      },
      step: (items) => this.attempt((model) => RecoveringSequence.step(items, stepsOf(model))),
    }
  }

  /** @returns whether another model computes from now on. @throws BrimError PROVIDER_LOST if the CPU cannot */
  async #recover(error: unknown): Promise<boolean> {
    if (this.#computing !== this.#options.computing || !mayBeLost(error)) return false
    this.#recovering ??= this.#moveToCpu(error).finally(() => {
      this.#recovering = undefined
    })
    return this.#recovering
  }

  async #moveToCpu(error: Error): Promise<boolean> {
    const { computing, isLost, openOnCpu, onLost } = this.#options
    if (!(await isLost())) return false
    const lost = this.#model
    try {
      this.#model = await openOnCpu()
    } catch (cause) {
      throw new BrimError(
        'PROVIDER_LOST',
        `${computing.provider} was lost, and the CPU cannot compute the model: ${failureOf(error)}`,
        {
          cause,
          hint: 'start the process again; "dmesg" may say what the driver did',
        },
      )
    }
    this.#computing = onLost(error)
    for (const sequence of this.#sequences) sequence.lose()
    // Not awaited: a run on a lost device may not return.
    this.#releasing = lost.release().catch(() => {})
    return true
  }
}

/** Whether the memory of the device no longer keeps what is written there. */
export async function hasLostDevice({ device }: Runtime): Promise<boolean> {
  if (!device) return false
  try {
    const tensor = await device.allocate('float32', [1])
    await device.check([tensor])
    await device.free([tensor])
    return false
  } catch {
    return true
  }
}

const takesIds = (item: StepItem): item is StepItem & { readonly ids: readonly number[] } => 'ids' in item

const mayBeLost = (error: unknown): error is BrimError =>
  error instanceof BrimError && (error.code === 'RUNTIME_FAILED' || error.code === 'OUT_OF_MEMORY')
