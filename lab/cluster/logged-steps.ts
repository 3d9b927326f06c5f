import type { LoggedStep } from '../../core/wire/protocol/http/bridge.ts'

/** The last steps of a bridge, oldest first. */
export async function loggedSteps(httpUrl: string, signal: AbortSignal): Promise<LoggedStep[]> {
  const response = await fetch(`${httpUrl}/v1/steps`, { signal })
  return ((await response.json()) as { steps: LoggedStep[] }).steps
}

/**
 * @returns a function that reads the bridge's steps since this call; it throws an Error when the bridge's log, which holds
 * thousands of steps, has already dropped some of them
 */
export async function stepsFromNow(httpUrl: string, signal: AbortSignal): Promise<() => Promise<LoggedStep[]>> {
  const before = (await loggedSteps(httpUrl, signal)).at(-1)?.index ?? -1
  return async () => {
    const steps = await loggedSteps(httpUrl, signal)
    const first = steps[0]?.index ?? 0
    if (first > before + 1) throw new Error(`the bridge dropped ${first - before - 1} steps before they were read`)
    return steps.filter(({ index }) => index > before)
  }
}
