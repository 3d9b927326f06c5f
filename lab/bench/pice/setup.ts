import type { BridgeClient } from '../../../cloud-bridge/commands/bridge-client.ts'
import type { Io } from '../../../core/base/io.ts'
import type { PicePrompts } from '../../../core/pice/prompts.ts'
import { jobOperations } from '../../../core/protocol/http/jobs.ts'
import type { BenchPrompt } from '../prompts.ts'
import { type Answered, askBridge, endOf, type Question } from './asking.ts'
import { type PiceCluster, type PiceClusterOptions, startPiceCluster } from './cluster.ts'
import { type Plan, paces } from './plan.ts'
import type { Judge } from './quality.ts'
import { maxAnswerTokens } from './workload.ts'

/** Device processes, as many as the paper has Jetsons. */
export const deviceCount = 4
/** Streams of one step of a bridge. */
export const batch = 16

/** The inputs that all measurements share. */
export interface Setup {
  readonly bundle: string
  readonly smallModels: readonly string[]
  readonly picePrompts: PicePrompts
  readonly plan: Plan
  readonly prompts: readonly BenchPrompt[]
  readonly judge: Judge
  readonly io: Io
  progress(line: string): void
}

const startCluster = (setup: Setup, options: Pick<PiceClusterOptions, 'args' | 'bytesPerS'>) =>
  startPiceCluster({ ...setup, devices: deviceCount, paces, ...options })

export const questionOf = ({ messages = [] }: BenchPrompt): Question => ({ messages, maxTokens: maxAnswerTokens })

/** Asks for everything at once. */
export const burst = <T>(items: readonly T[], ask: (item: T, i: number) => Promise<Answered>) => Promise.all(items.map(ask))

/** With profiles of all devices, and after some answers that are not recorded. */
export async function startWarmCluster(
  setup: Setup,
  options: Pick<PiceClusterOptions, 'args' | 'bytesPerS'>,
): Promise<PiceCluster> {
  const { prompts, io } = setup
  const cluster = await startCluster(setup, options)
  try {
    await Promise.all(cluster.deviceIds.map((device) => profileOf(cluster.client, device)))
    const ask = (prompt: BenchPrompt, i: number) =>
      askBridge(cluster.httpUrl, questionOf(prompt), { mode: 'auto', user: `warm ${i}` }, io.signal)
    for (const size of [1, deviceCount, 2 * deviceCount]) await burst(prompts.slice(0, size), ask)
    return cluster
  } catch (error) {
    await cluster[Symbol.asyncDispose]()
    throw error
  }
}

async function profileOf(client: BridgeClient, device: string): Promise<void> {
  const { value } = await client.call(jobOperations.submit, { body: { kind: 'profile', input: {}, device } })
  if ('id' in value) await endOf(client, value.id)
}
