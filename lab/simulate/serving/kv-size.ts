import type { KvSize } from '../../../core/policy/admission/kv.ts'

/** As paged attention charges (vLLM, SGLang): whole pages of so many positions. */
export const pagedKv = (bytesPerPosition: number, pagePositions = 1): KvSize => ({
  bytesPerPosition,
  chargeOf: (positions) => Math.ceil(positions / pagePositions) * pagePositions * bytesPerPosition,
})
