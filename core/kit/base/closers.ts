/** The resources of a composition root, closed in reverse order. */
export interface Closers {
  push(close: () => unknown): void
  /** Closes everything, even if some of it fails. @throws the first failure */
  closeAll(): Promise<void>
}

export function createClosers(): Closers {
  const closers: (() => unknown)[] = []
  return {
    push: (close) => closers.push(close),
    async closeAll() {
      const failures: unknown[] = []
      for (const close of closers.splice(0).reverse()) {
        // A failure must not keep the rest open.
        await Promise.resolve()
          .then(close)
          .catch((error: unknown) => failures.push(error))
      }
      if (failures.length > 0) throw failures[0]
    },
  }
}
