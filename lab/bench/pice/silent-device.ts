import { setTimeout as sleep } from 'node:timers/promises'
import { jobOperations } from '../../../core/wire/protocol/http/jobs.ts'
import { askBridge } from './asking.ts'
import type { PiceCluster } from './cluster.ts'
import { questionOf, type Setup } from './setup.ts'

/** One question, with nothing else under way: to the LLM alone, by a sketch, and by a sketch while one of three devices hangs. */
export interface SilentDeviceRun {
  readonly prompt: string
  /** Until the last text. */
  readonly aloneMs: number
  readonly tookMs: number
  /** By a sketch with three devices that answer. */
  readonly usualMs: number
  /** Until the first text of the sketched answer. */
  readonly ttftMs: number
  /** By its plan. */
  readonly predictedMs: number | null
  /** That was stopped (SIGSTOP) in the middle of its job; null: no device was given one. */
  readonly device: string | null
  readonly sketchLines: number
  /** Sentences that the LLM had to write. */
  readonly completedSentences: number
}

/** Between looks for the device that has the job. */
const lookMs = 10
/** For a device that goes on, before the next question. */
const recoveryMs = 8_000

/** @param cluster of three devices, warmed up @param count of questions */
export async function measureSilentDevice(
  setup: Pick<Setup, 'prompts' | 'plan' | 'io'>,
  cluster: PiceCluster,
  count: number,
): Promise<SilentDeviceRun[]> {
  const { prompts, io } = setup
  const runs: SilentDeviceRun[] = []
  for (const [at, prompt] of prompts.slice(0, count).entries()) {
    if (at > 0) await sleep(recoveryMs, undefined, { signal: io.signal })
    const question = questionOf(prompt, setup)
    const alone = await askBridge(cluster.httpUrl, question, { mode: 'full', user: `alone ${at}` }, io.signal)
    const usual = await askBridge(cluster.httpUrl, question, { mode: 'sketch', user: `usual ${at}` }, io.signal)
    const watching = new AbortController()
    const stopped = stopWhoExpands(cluster, AbortSignal.any([watching.signal, io.signal]))
    const { sample } = await askBridge(cluster.httpUrl, question, { mode: 'sketch', user: `silent ${at}` }, io.signal)
    watching.abort()
    const device = await stopped
    if (device !== null) cluster.resume(device)
    if (alone.sample.tookMs === null || sample.tookMs === null)
      throw new Error(`no answer: ${alone.sample.error ?? sample.error}`)
    const { sketchLines, completedSentences, plannedS } = sample
    const predictedMs = plannedS === null ? null : Math.round(1_000 * plannedS)
    const times = { aloneMs: alone.sample.tookMs, tookMs: sample.tookMs, ttftMs: sample.ttftMs ?? sample.tookMs, predictedMs }
    if (usual.sample.tookMs === null) throw new Error(`no answer: ${usual.sample.error}`)
    runs.push({ prompt: prompt.id, ...times, usualMs: usual.sample.tookMs, device, sketchLines, completedSentences })
  }
  return runs
}

/** Stops the first device that has begun to expand. @returns null: none has */
async function stopWhoExpands({ client, suspend }: PiceCluster, signal: AbortSignal): Promise<string | null> {
  while (!signal.aborted) {
    const query = { kind: 'pice.expand' as const, state: 'RUNNING' as const }
    const { jobs } = (await client.call(jobOperations.list, { query })).value
    const device = jobs[0]?.device ?? null
    if (device !== null) {
      suspend(device)
      return device
    }
    await sleep(lookMs)
  }
  return null
}

/** With a device that hangs, over the LLM alone. */
export const overAlone = ({ tookMs, aloneMs }: SilentDeviceRun): number => tookMs / aloneMs
