import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { readAgentConfig } from '../../../../agent/config.ts'
import { readBridgeConfig } from '../../../../cloud-bridge/config.ts'
import { runScenario } from '../../../../lab/simulate/run/run-scenario.ts'
import { type FleetCandidate, refinements, settingsOf, ways } from '../../../../lab/simulate/what-if/candidates.ts'
import { bestOf, leastLost, type Tried } from '../../../../lab/simulate/what-if/choice.ts'
import { configFiles } from '../../../../lab/simulate/what-if/config-files.ts'
import { type Situation, scenarioOf } from '../../../../lab/simulate/what-if/situation.ts'
import { runBrim } from '../../../support/run-brim.ts'
import { tinyBundle } from '../../../support/tiny-bundle.ts'

const folder = mkdtempSync(join(tmpdir(), 'brim-what-if-'))
const rows = Array.from({ length: 6 }, (_, i) => `${2 * i},${40 + 10 * i},${8 + i}`)
writeFileSync(join(folder, 'trace.csv'), ['arrival,prompt tokens,output tokens', ...rows].join('\n'))

const situation: Situation = {
  trace: 'trace.csv',
  requests: 6,
  model: 'llama3-8b',
  gpu: 'a100-80',
  gpus: 1,
  replicas: 1,
  board: 'agx-orin-32',
  smallModel: 'qwen2.5-1.5b',
  devices: 4,
  up: 40,
  down: 96,
  rtt: 20,
  readingSpeed: 5,
  acceptLength: 2.06,
  serverPrice: '0.15/0.6',
}

const result = await runScenario(scenarioOf(situation, ways[5]!), { folders: [folder] })
/** A result with other figures. */
function tried(candidate: FleetCandidate, ttftMs: number, dollars: number, answered = 6, latencyMs = 9_000, joules = 500): Tried {
  const { all } = result
  const changed = {
    ...all,
    answered,
    ttftMs: { ...all.ttftMs, p95: ttftMs },
    latencyMs: { ...all.latencyMs, p95: latencyMs },
    work: { ...all.work, joules, dollars, serverPromptTokens: 0, serverOutputTokens: 100 * dollars },
  }
  return { candidate, result: { ...result, all: changed } }
}

const [cloud, hat, local] = ways as readonly [FleetCandidate, FleetCandidate, FleetCandidate]
/** All that is tried of a way. */
const refined = (way: FleetCandidate) => refinements.flatMap(({ of }) => of(way))

describe('the choice among candidates', () => {
  it('is the cheapest of those that are as good as the best by the goal', () => {
    const all = [tried(cloud, 100, 2), tried(hat, 109, 1), tried(local, 120, 0.5)]
    expect(bestOf(all, 'ttft')?.candidate).toBe(hat)
    expect(bestOf(all, 'cost')?.candidate).toBe(local)
  })

  it('is, of equals, the one whose answers end first, and the first where they hardly differ', () => {
    expect(bestOf([tried(cloud, 100, 1, 6, 9_000), tried(hat, 101, 1, 6, 6_000)], 'ttft')?.candidate).toBe(hat)
    expect(bestOf([tried(cloud, 101, 1, 6, 9_000), tried(hat, 100, 1, 6, 8_900)], 'ttft')?.candidate).toBe(cloud)
    expect(bestOf([tried(cloud, 101, 1), tried(hat, 100, 1, 6, 9_000, 300)], 'ttft')?.candidate).toBe(hat)
  })

  it('is none that loses requests', () => {
    expect(bestOf([tried(cloud, 100, 2, 5), tried(hat, 900, 1)], 'ttft')?.candidate).toBe(hat)
    expect(bestOf([tried(cloud, 100, 2, 5)], 'ttft')).toBeUndefined()
    expect(leastLost([tried(cloud, 100, 2, 4), tried(hat, 900, 1, 5), tried(local, 1, 1, 5)]).candidate).toBe(hat)
  })
})

describe('the candidates', () => {
  it('have scenarios that run', async () => {
    expect([result.all.answered, result.isComplete]).toEqual([6, true])
    for (const candidate of [...ways, ...ways.flatMap(refined)])
      expect(scenarioOf(situation, candidate).workload.modes[0]!.mode).toBe(candidate.mode)
  })

  it('name hardware that there is not, and the nearest that there is', () => {
    expect(() => scenarioOf({ ...situation, gpu: 'a100-81' }, cloud)).toThrow(/^cloud\.gpu .*"a100-80"/)
  })

  it('of HAT differ in steps, chunks and drafts, those of the cloud in steps, those of auto in the budget', () => {
    const tries = (way: FleetCandidate) => [...new Set(refined(way).flatMap(({ settings }) => Object.keys(settings)))]
    const steps = ['policy', 'stepRows', 'promptRows']
    expect(tries(cloud)).toEqual(steps)
    expect(tries(hat)).toEqual([...steps, 'maxChunk', 'firstChunk', 'draftLimit', 'draftAhead'])
    expect(tries(local)).toEqual([])
    const auto = ways.find(({ mode }) => mode === 'auto')!
    expect(refined(auto).map(({ settings }) => settings.budgetShare)).toEqual(expect.arrayContaining([0.1, 0.3]))
  })

  it('never repeat the settings that the best has, and have distinct names', () => {
    for (const way of ways) {
      const names = refined(way).map(({ name }) => name)
      expect(new Set(names).size).toBe(names.length)
      expect(refined(way).map(settingsOf)).not.toContainEqual(settingsOf(way))
    }
  })

  it('go on from the best so far', () => {
    const [steps, chunks, drafts] = refinements
    const best = steps!.of(hat).find(({ settings }) => settings.stepRows === 2_048 && settings.policy === 'tokenflow')!
    const wide = chunks!.of(best)
    const sizes = wide.map(({ settings: { maxChunk, firstChunk } }) => [maxChunk, firstChunk])
    expect(sizes).toEqual(
      expect.arrayContaining([
        [64, 64],
        [1_024, 128],
      ]),
    )
    expect(chunks!.of(hat).map(({ settings }) => settings.maxChunk)).not.toContain(1_024)
    const drafted = drafts!.of(wide[0]!)[0]!
    expect(settingsOf(drafted)).toMatchObject({ policy: 'tokenflow', stepRows: 2_048, maxChunk: 64, firstChunk: 64 })
    const { cloud, policies } = scenarioOf(situation, drafted)
    expect(cloud).toMatchObject({ policy: 'tokenflow', stepRows: 2_048, slowBytes: 4 * 2 ** 30 })
    expect(policies.hat).toMatchObject({
      maxChunkTokens: 64,
      chunkTokens: 64,
      draftLimit: 2,
      threshold: null,
      acceptLength: 2.06,
    })
  })

  it('have the defaults of agent and bridge where nothing else is tried', () => {
    const { cloud: simulated, policies } = scenarioOf(situation, hat)
    expect(simulated).toMatchObject({ policy: 'decode-first', stepRows: 512, promptRows: 128, slowBytes: 0, maxWaiting: 512 })
    expect(policies.hat).toMatchObject({
      maxChunkTokens: 512,
      chunkTokens: 128,
      draftLimit: 15,
      threshold: null,
      draftAhead: true,
    })
    const bridge = readBridgeConfig({ bundle: folder, stateDir: folder })
    expect(simulated).toMatchObject({
      policy: bridge.servingPolicy,
      stepRows: bridge.tokenBudget,
      promptRows: bridge.promptTokens,
      maxWaiting: bridge.limits.waitingAnswers,
    })
    expect(policies.hat).toMatchObject({
      maxChunkTokens: bridge.frameTokens,
      chunkTokens: bridge.chunkTokens,
      draftLimit: bridge.draftLimit,
    })
    const { draft } = readAgentConfig({ id: 'd', bundle: folder, stateDir: folder })
    expect(policies.hat).toMatchObject({ threshold: draft.threshold ?? null, draftAhead: draft.ahead })
  })
})

describe('configuration files', () => {
  async function check(program: 'agent' | 'bridge', text: string, ...more: string[]) {
    const file = join(folder, `${program}.yaml`)
    writeFileSync(file, text)
    const { code, err } = await runBrim([program, 'config', 'check', '--config', file, ...more], { env: { HOME: folder } })
    return { code, err }
  }

  it('are accepted by agent and bridge', async () => {
    using bundle = await tinyBundle()
    const { path } = bundle
    for (const candidate of [...ways, ...refinements.flatMap(({ of }) => [...of(hat).slice(-1), ...of(cloud).slice(-1)])]) {
      const best = tried(candidate, 100, 1)
      const files = configFiles(situation, 'ttft', best, best, [])
      expect(await check('agent', files.agent, '--id', 'd', '--bundle', path, '--slm', path), files.agent).toEqual({
        code: 0,
        err: '',
      })
      expect(await check('bridge', files.bridge, '--bundle', path), files.bridge).toEqual({ code: 0, err: '' })
    }
  })

  it('have the reasons as comments, prices, and budgets for twice the trace’s day', () => {
    const best = tried(ways[5]!, 100, 1)
    const { agent, bridge } = configFiles(situation, 'ttft', best, best, [best, tried(cloud, 200, 2)])
    expect(agent).toMatch(/^# By brim simulate what-if trace\.csv: auto: budget-share 0\.2 is best for ttft, of 2 ways/)
    expect(agent).toContain('# cloud: TTFT P95 200 ms')
    expect(agent).toContain('\nmode: auto\nserver: bridge\nbudget-share: 0.2\nreading-speed: 5\nserver-price: 0.15/0.6\n')
    const dollars = Number(/budget-dollars: (.*)/.exec(agent)![1])
    expect(dollars).toBeCloseTo((2 * 86_400) / result.durationS / 4, -3)
    expect(bridge).toContain('\nserving-policy: decode-first\ntoken-budget: 512\nprompt-tokens: 128\nkv-budget-bytes: ')
    // Llama3-8B on one A100 with 80 GB.
    expect(Number(/kv-budget-bytes: (.*)/.exec(bridge)![1])).toBeCloseTo(0.9 * 80 * 2 ** 30 - 16e9, -10)
  })

  it('leave sketches to the bridge, whom clients ask', () => {
    const best = tried(ways.find(({ way }) => way === 'sketches')!, 100, 1)
    const { agent, bridge } = configFiles(situation, 'cost', best, best, [])
    expect(agent).toContain('# Clients ask the bridge')
    expect(agent).not.toMatch(/^(mode|server):/m)
    expect(bridge).toContain('\nanswer-mode: auto\n')
  })

  it('say what the settings gain over the defaults', () => {
    const better = refinements[2]!.of(hat)[0]!
    const files = configFiles(situation, 'latency', tried(better, 100, 1), tried(hat, 300, 1), [])
    for (const text of Object.values(files)) expect(text).toContain('# with the defaults: TTFT P95 300 ms')
    expect(files.agent).toContain('\ndraft-limit: 2\ndraft-ahead: true\n')
    expect(files.bridge).toContain('\nframe-tokens: 512\nchunk-tokens: 128\ndraft-limit: 2\n')
  })
})
