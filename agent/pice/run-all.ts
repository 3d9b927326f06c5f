/**
 * Runs tasks in order, up to `width` at a time. The first failure stops the others and is thrown when all have ended.
 * @param stop called with the first failure
 */
export async function runAll<Task>(
  tasks: readonly Task[],
  width: number,
  run: (task: Task) => Promise<void>,
  stop: (error: unknown) => void,
): Promise<void> {
  const waiting = tasks.values()
  let failure: { readonly error: unknown } | undefined
  async function runNext(): Promise<void> {
    for (const task of waiting) {
      if (failure) return
      try {
        await run(task)
      } catch (error) {
        failure ??= { error }
        stop(error)
      }
    }
  }
  await Promise.all(Array.from({ length: Math.min(width, tasks.length) }, runNext))
  if (failure) throw failure.error
}
