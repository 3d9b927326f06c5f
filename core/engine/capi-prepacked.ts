import type { OrtApi, Pointer } from './capi-library.ts'
import { createPointer } from './capi-status.ts'
import type { Tensor } from './runtime.ts'

type Weights = ReadonlyMap<string, Tensor>

/** Packed copies of weights, one container per set of weights, for as long as a session uses it. */
export class PrepackedWeights {
  readonly #api: OrtApi
  readonly #containers = new Map<Weights, { readonly pointer: Pointer; users: number }>()

  constructor(api: OrtApi) {
    this.#api = api
  }

  /** The container of these weights, for one more session. */
  acquire(weights: Weights): Pointer {
    const known = this.#containers.get(weights)
    if (known) {
      known.users++
      return known.pointer
    }
    const pointer = createPointer(this.#api, 'making room for packed weights', (out) =>
      this.#api.createPrepackedWeightsContainer(out),
    )
    this.#containers.set(weights, { pointer, users: 1 })
    return pointer
  }

  /** One session less; its handle must be gone already. */
  release(weights: Weights): void {
    const container = this.#containers.get(weights)
    if (!container) throw new Error('packed weights were given back too often')
    container.users--
    if (container.users > 0) return
    this.#containers.delete(weights)
    this.#api.releasePrepackedWeightsContainer(container.pointer)
  }
}
