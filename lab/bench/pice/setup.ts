import type { BridgeClient } from '../../../cloud-bridge/commands/bridge-client.ts'
import type { PicePrompts } from '../../../core/answer/sketch/prompts.ts'
import type { Io } from '../../../core/kit/base/io.ts'
import type { FilePrompt } from '../../../core/model/text/prompt-file.ts'
import { jobOperations } from '../../../core/wire/protocol/http/jobs.ts'
import { type Answered, askBridge, endOf, type Question } from './asking.ts'
import { type PiceCluster, type PiceClusterOptions, startPiceCluster } from './cluster.ts'
import type { Plan } from './plan.ts'
import type { Judge } from './quality.ts'

/** Streams of one step of a bridge. */
export const batch = 16

/** The inputs that all measurements share. */
export interface Setup {
  readonly bundle: string
  readonly smallModels: readonly string[]
  readonly picePrompts: PicePrompts
  readonly plan: Plan
  readonly prompts: readonly FilePrompt[]
  readonly judge: Judge
  readonly io: Io
  progress(line: string): void
}

export const startCluster = (setup: Setup, options: Pick<PiceClusterOptions, 'args' | 'bytesPerS'>) =>
  startPiceCluster({ ...setup, devices: setup.plan.devices, paces: setup.plan.paces, ...options })

export const questionOf = ({ messages = [] }: FilePrompt, { plan }: Pick<Setup, 'plan'>): Question => ({
  messages,
  maxTokens: plan.answerTokens,
})

/** Asks for everything at once. */
export const burst = <T>(items: readonly T[], ask: (item: T, i: number) => Promise<Answered>) => Promise.all(items.map(ask))

/**
 * Profiles all devices, and asks for answers that are not recorded: the bridge measures its LLM, and learns from sketches which
 * questions suit them.
 */
export async function warmUp(setup: Pick<Setup, 'plan' | 'prompts' | 'io'>, cluster: PiceCluster): Promise<void> {
  const { plan, prompts, io } = setup
  await profileDevices(cluster)
  for (const mode of ['full', 'sketch'] as const)
    await burst(prompts.slice(0, plan.warmAnswers), (prompt, i) =>
      askBridge(cluster.httpUrl, questionOf(prompt, setup), { mode, user: `${mode} ${i}` }, io.signal),
    )
}

export async function profileDevices({ client, deviceIds }: Pick<PiceCluster, 'client' | 'deviceIds'>): Promise<void> {
  await Promise.all(deviceIds.map((device) => profileOf(client, device)))
}

async function profileOf(client: BridgeClient, device: string): Promise<void> {
  const { value } = await client.call(jobOperations.submit, { body: { kind: 'profile', input: {}, device } })
  if ('id' in value) await endOf(client, value.id)
}
