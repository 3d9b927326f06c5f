import { systemClock } from '../../../core/kit/base/clock.ts'

/** The same number of jobs to a bridge with a shared database, and to one without. */
export interface EnqueueRun {
  readonly what: 'enqueue'
  readonly sharedMs: number
  readonly aloneMs: number
}

export const batchSize = 50
/** Requests under way at once. */
const parallel = 4

/** Jobs of a kind that no device takes, in turn to the one and the other. */
export async function timeEnqueue(
  sharedUrl: string,
  aloneUrl: string,
  requests: number,
  progress: (line: string) => void,
): Promise<EnqueueRun[]> {
  const runs: EnqueueRun[] = []
  for (let at = 0; at < requests; at += parallel) {
    progress(`enqueue: ${at} of ${requests} requests`)
    const sharedMs = await timeRequests(sharedUrl)
    runs.push({ what: 'enqueue', sharedMs, aloneMs: await timeRequests(aloneUrl) })
  }
  return runs
}

async function timeRequests(url: string): Promise<number> {
  const job = { kind: 'hat.generate', input: { prompt: 'How long does it take?' } }
  const body = JSON.stringify({ jobs: Array.from({ length: batchSize }, () => job) })
  const startedMs = systemClock.nowMs()
  await Promise.all(
    Array.from({ length: parallel }, async () => {
      const response = await fetch(`${url}/v1/jobs`, { method: 'POST', headers: { 'content-type': 'application/json' }, body })
      if (!response.ok) throw new Error(`jobs not accepted: ${await response.text()}`)
    }),
  )
  return systemClock.nowMs() - startedMs
}
