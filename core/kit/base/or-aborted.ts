/**
 * Waits for something to open, but no longer than until the signal is aborted.
 * @param close called with what opens later than that
 * @throws the signal's reason; what `opening` rejects with
 */
export function orAborted<T>(opening: Promise<T>, signal: AbortSignal, close: (late: T) => Promise<void>): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = () => {
      reject(signal.reason)
      // It was given up, so its own failure changes nothing.
      opening.then(close).catch(() => {})
    }
    if (signal.aborted) return onAbort()
    signal.addEventListener('abort', onAbort, { once: true })
    opening.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort))
  })
}
