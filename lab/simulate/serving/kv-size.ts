import { type KvLimits, kvCharge } from '../../../core/policy/admission/kv.ts'

/** The KV memory of a stream's positions. */
export interface KvSize {
  readonly bytesPerPosition: number
  /** What a stream of so many positions is charged; never less for more of them. */
  chargeOf(positions: number): number
}

/** As the bridge charges: buffers that double. */
export const doublingKv = (limits: KvLimits): KvSize => ({
  bytesPerPosition: limits.bytesPerPosition,
  chargeOf: (positions) => kvCharge(positions, limits),
})

/** As paged attention charges (vLLM, SGLang): whole pages of so many positions. */
export const pagedKv = (bytesPerPosition: number, pagePositions = 1): KvSize => ({
  bytesPerPosition,
  chargeOf: (positions) => Math.ceil(positions / pagePositions) * pagePositions * bytesPerPosition,
})
