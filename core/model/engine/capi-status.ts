import { BrimError } from '../../kit/base/errors.ts'
import type { OrtApi, Pointer } from './capi-library.ts'

/**
 * Checks the status of a call.
 * @param what the operation, for the message: "… failed while <what>"
 * @throws BrimError RUNTIME_FAILED, OUT_OF_MEMORY
 */
export function check(api: OrtApi, status: Pointer | null, what: string): void {
  if (status === null) return
  const cause = new Error(api.getErrorMessage(status))
  api.releaseStatus(status)
  if (isAllocationFailure(cause.message))
    throw new BrimError('OUT_OF_MEMORY', `memory ran out while ${what}`, {
      cause,
      hint: 'use a smaller model, a smaller weight format, or fewer sequences at a time',
    })
  throw new BrimError('RUNTIME_FAILED', `ONNX Runtime failed while ${what}`, { cause })
}

/** Makes a call off the event loop. @returns its status */
export function called(start: (done: (error: unknown, status: Pointer | null) => void) => void): Promise<Pointer | null> {
  return new Promise((resolve, reject) => start((error, status) => (error ? reject(error) : resolve(status))))
}

/** Calls a function of the C API with one pointer-sized output as its last argument, and returns it. */
export function createPointer(api: OrtApi, what: string, call: (out: BigUint64Array) => Pointer | null): Pointer {
  const out = new BigUint64Array(1)
  check(api, call(out), what)
  return out[0]!
}

/** There is no status code for it, so the messages of bad_alloc and of ONNX Runtime's allocators are matched. */
function isAllocationFailure(message: string): boolean {
  return /bad_alloc|failed to allocate|out of memory|available memory/i.test(message)
}
