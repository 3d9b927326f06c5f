import { cp, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Agent, startAgent } from '../../agent/agent.ts'
import type { AgentSettings } from '../../agent/config.ts'
import type { Host } from '../../agent/device/host.ts'
import type { BridgeSettings } from '../../cloud-bridge/config.ts'
import { type Clock, systemClock } from '../../core/kit/base/clock.ts'
import { buildBundle } from '../../core/model/bundle/build.ts'
import { codeStates } from '../../core/model/coding/code-states.ts'
import type { Health } from '../../core/wire/protocol/http/bridge.ts'
import { tinyLlamaConfig, writeRandomCheckpoint } from '../../lab/random-checkpoint.ts'
import { fixtureDir } from '../oracle/fixtures.ts'
import { healthOf, startTestBridge, type TestBridge } from './bridge.ts'
import { tempDir } from './temp-dir.ts'

/**
 * The tiny Llama with tokenizer and chat template, split after its first layer, with a random adapter or without one.
 * @param options.coded with tables for coded states; default: without
 * @param options.context in tokens; default: 512
 */
export async function buildTextBundle(
  dir: string,
  options: { adapter?: boolean; format?: 'fp32' | 'fp16'; context?: number; coded?: boolean } = {},
): Promise<string> {
  const { format = 'fp32', context } = options
  const checkpoint = context === undefined ? fixtureDir('llama') : await withContext(fixtureDir('llama'), context, dir)
  const coding = options.coded ? { codeStates: (folder: string) => codeStates(folder, 1) } : {}
  const base = { checkpoint, split: 1, format, name: 'tiny-llama', ...coding } as const
  if (options.adapter === false) {
    const out = join(dir, `plain-${format}-bundle`)
    await buildBundle({ ...base, out })
    return out
  }
  const adapters = join(dir, 'random')
  const adapter = { split: 1, heads: 4, kvHeads: 2, headDim: 16 }
  await writeRandomCheckpoint(adapters, { config: tinyLlamaConfig, dtype: 'F16', seed: 3, adapter })
  const out = join(dir, 'text-bundle')
  await buildBundle({ ...base, adapter: join(adapters, 'adapter'), out })
  return out
}

async function withContext(fixture: string, context: number, dir: string): Promise<string> {
  const checkpoint = join(dir, 'longer-checkpoint')
  await cp(fixture, checkpoint, { recursive: true })
  const config = join(checkpoint, 'config.json')
  const given = JSON.parse(await readFile(config, 'utf8')) as Record<string, unknown>
  await writeFile(config, JSON.stringify({ ...given, max_position_embeddings: context }))
  return checkpoint
}

/** Another tiny Llama, not split, with the same tokenizer. @param layers many make it slow */
export async function buildSlmBundle(dir: string, layers = 1): Promise<string> {
  const checkpoint = join(dir, 'slm-checkpoint')
  await cp(fixtureDir('llama'), checkpoint, { recursive: true })
  const config = JSON.parse(await readFile(join(checkpoint, 'config.json'), 'utf8')) as Record<string, unknown>
  await writeRandomCheckpoint(checkpoint, { config: { ...config, num_hidden_layers: layers }, dtype: 'F16', seed: 5 })
  await rm(join(checkpoint, 'model.safetensors.index.json'))
  const out = join(dir, 'slm-bundle')
  await buildBundle({ checkpoint, out, format: 'fp32', name: 'tiny-slm' })
  return out
}

/** A real bridge and a real agent in this process, on free loopback ports. */
export interface AgentWorld extends AsyncDisposable {
  readonly dir: string
  readonly bundle: string
  readonly bridge: TestBridge
  readonly agent: Agent
  startAgent(settings: Partial<AgentSettings> & { id: string }, clock?: Clock, host?: Host): Promise<Agent>
  bridgeHealth(): Promise<Health>
}

export async function startAgentWorld(
  options: { adapter?: boolean; context?: number; bridge?: Partial<BridgeSettings> } = {},
): Promise<AgentWorld> {
  const folder = tempDir()
  const bundle = await buildTextBundle(folder.path, options)
  const stateDir = join(folder.path, 'bridge')
  const bridge = await startTestBridge({ bundle, stateDir, chunkTokens: 16, ...options.bridge })
  const agents: Agent[] = []
  const start = async (
    settings: Partial<AgentSettings> & { id: string },
    clock: Clock = systemClock,
    host?: Host,
  ): Promise<Agent> => {
    const defaults = { bundle, bridges: [bridge.mqttUrl], apiPort: 0, threads: 1, logLevel: 'silent' as const }
    const agent = await startAgent({ stateDir: join(folder.path, settings.id), ...defaults, ...settings }, clock, host)
    agents.push(agent)
    return agent
  }
  return {
    dir: folder.path,
    bundle,
    bridge,
    agent: await start({ id: 'jetson-01' }),
    startAgent: start,
    bridgeHealth: () => healthOf(bridge),
    async [Symbol.asyncDispose]() {
      await Promise.all(agents.map((agent) => agent.close()))
      await bridge.close()
      folder[Symbol.dispose]()
    },
  }
}
