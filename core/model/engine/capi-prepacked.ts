import type { OrtApi, Pointer } from './capi-library.ts'
import { createPointer } from './capi-status.ts'
import type { Tensor } from './runtime.ts'

type Weights = ReadonlyMap<string, Tensor>

/** Containers of prepacked weights, one per set of weights, counted by the engine sessions that use them. */
export class PrepackedWeights {
  readonly #api: OrtApi
  readonly #containers = new Map<Weights, { readonly pointer: Pointer; users: number }>()

  constructor(api: OrtApi) {
    this.#api = api
  }

  /** Returns the container of these weights and counts one more engine session. */
  acquire(weights: Weights): Pointer {
    const known = this.#containers.get(weights)
    if (known) {
      known.users++
      return known.pointer
    }
    const pointer = createPointer(this.#api, 'creating a container for prepacked weights', (out) =>
      this.#api.createPrepackedWeightsContainer(out),
    )
    this.#containers.set(weights, { pointer, users: 1 })
    return pointer
  }

  /** Counts one engine session less, after its handle was released; frees the container with the last one. */
  release(weights: Weights): void {
    const container = this.#containers.get(weights)
    if (!container) throw new Error('prepacked weights were released too often')
    container.users--
    if (container.users > 0) return
    this.#containers.delete(weights)
    this.#api.releasePrepackedWeightsContainer(container.pointer)
  }
}
