import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { run } from '../../../../brim.ts'
import { runScenario } from '../../../../lab/simulate/run/run-scenario.ts'
import { refinements, settingsOf, ways } from '../../../../lab/simulate/what-if/candidates.ts'
import { configFiles } from '../../../../lab/simulate/what-if/config-files.ts'
import { type Situation, scenarioOf } from '../../../../lab/simulate/what-if/situation.ts'
import { buildTextBundle } from '../../../support/agent-world.ts'
import { captureIo } from '../../../support/captured-io.ts'
import { postJson } from '../../../support/post-json.ts'
import { tempDir } from '../../../support/temp-dir.ts'

const situation: Situation = {
  trace: 'trace.csv',
  requests: 3,
  model: 'llama3-8b',
  gpu: 'a100-80',
  gpus: 1,
  replicas: 1,
  board: 'agx-orin-32',
  smallModel: 'qwen2.5-1.5b',
  devices: 1,
  up: 40,
  down: 96,
  rtt: 20,
  readingSpeed: 5,
  acceptLength: 2.06,
}

it('agents and a bridge start with the files of what-if, and draft no longer than each of them allows', {
  timeout: 30_000,
}, async () => {
  using dir = tempDir()
  const bundle = await buildTextBundle(dir.path)
  writeFileSync(join(dir.path, 'trace.csv'), 'arrival,prompt tokens,output tokens\n0,40,8\n1,50,9\n2,60,9\n')
  const hat = ways.find(({ mode }) => mode === 'hat')!
  const candidate = refinements.reduce((best, { of }) => of(best)[0] ?? best, hat)
  const result = await runScenario(scenarioOf(situation, candidate), { folders: [dir.path] })
  const best = { candidate, result }
  const files = configFiles(situation, 'latency', best, best, [best])
  for (const [name, text] of Object.entries(files)) writeFileSync(join(dir.path, `${name}.yaml`), text)

  const stop = new AbortController()
  const started: Promise<number>[] = []
  async function start(program: 'agent' | 'bridge', ...more: string[]): Promise<Record<string, string>> {
    const { io, out, err } = captureIo({ signal: stop.signal, env: { HOME: dir.path } })
    const options = [
      '--bundle',
      bundle,
      '--state-dir',
      join(dir.path, String(started.length)),
      '--threads',
      '1',
      '--log-level',
      'silent',
      '--json',
    ]
    started.push(run([program, 'run', '--config', join(dir.path, `${program}.yaml`), ...options, ...more], io))
    await expect.poll(() => err() + out()).toContain('"ready"')
    return JSON.parse(out().split('\n')[0]!) as Record<string, string>
  }
  try {
    const { mqttUrl } = await start('bridge', '--mqtt-port', '0', '--http-port', '0')
    expect(settingsOf(candidate).draftLimit).toBe(2)
    // Every draft goes on until something limits it: the bridge's file, and then the agent's option.
    for (const [own, limit] of [
      [8, 2],
      [1, 1],
    ] as const) {
      const where = ['--id', `board-${own}`, '--bridge', mqttUrl!, '--api-port', '0']
      const { apiUrl } = await start(
        'agent',
        ...where,
        '--draft-limit',
        String(own),
        '--draft-threshold',
        '0',
        '--drafter',
        'adapter',
      )
      const response = await postJson(`${apiUrl}/v1/completions`, { prompt: 'Once upon a time', max_tokens: 24, temperature: 0 })
      expect(response.status).toBe(200)
      const { brim } = (await response.json()) as { brim: { drafted: number; rounds: number } }
      expect(brim.drafted).toBeLessThanOrEqual(limit * brim.rounds)
      expect(brim.drafted).toBeGreaterThan((limit - 1) * brim.rounds)
    }
  } finally {
    stop.abort()
    await Promise.all(started)
  }
})
