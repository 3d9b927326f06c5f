import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { run } from '../../../brim.ts'
import { visibleText } from '../../../core/kit/base/visible-text.ts'
import { ToJobDevice } from '../../../core/wire/protocol/jobs.ts'
import { deviceTopic } from '../../../core/wire/protocol/topics.ts'
import { registerAbsentDevice } from '../../support/absent-device.ts'
import { buildSlmBundle, startAgentWorld } from '../../support/agent-world.ts'
import { mqttClient } from '../../support/broker.ts'
import { captureIo } from '../../support/captured-io.ts'
import { runBrim } from '../../support/run-brim.ts'
import { shared } from '../../support/shared.ts'

const world = shared(() => startAgentWorld({ bridge: { answerMode: 'full' } }))
beforeAll(async () => {
  // No profiles of devices among the jobs.
  await world.startAgent({ id: 'jetson-02', slms: [await buildSlmBundle(world.dir)] })
})

const brim = (...words: string[]) => runBrim(['job', ...words, '--bridge-url', world.bridge.httpUrl])
const lines = (text: string) =>
  text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>)

describe('brim job', () => {
  it('submits and watches a job: its text on stdout, its history on stderr', async () => {
    const submitted = await brim('submit', 'slm.generate', '--input', '{"prompt": "Can you", "maxTokens": 8}', '--watch')
    expect(submitted).toMatchObject({ code: 0, err: expect.stringMatching(/sent.*jetson-02[\s\S]*succeeded/) })
    const [job] = (lines((await brim('list', '--limit', '1', '--json')).out)[0] as { jobs: { id: string }[] }).jobs
    const shown = lines((await brim('show', job!.id, '--json')).out)[0] as {
      result: { text: string }
      events: { type: string }[]
    }
    expect(submitted.out.trim()).toBe(visibleText(shown.result.text.trim()))
    expect(shown.events.at(-1)).toMatchObject({ type: 'succeeded' })
    expect((await brim('show', job!.id)).out).toContain('SUCCEEDED')
    expect((await brim('watch', job!.id)).out.trim()).toBe(visibleText(shown.result.text.trim()))
    expect((await brim('cancel', job!.id)).out).toContain('had already ended: SUCCEEDED')
    const again = (await brim('retry', job!.id)).out.trim()
    expect(again).toMatch(/^[0-9a-f]{8}-\d+$/)
    expect((await brim('watch', again)).code).toBe(0)
  })

  it('sends a prompt as a user message, reads input from a file, and submits one job per key', async () => {
    const file = join(world.dir, 'input.json')
    writeFileSync(file, '{"prompt": "Is it", "maxTokens": 4}')
    const submit = () => brim('submit', 'slm.generate', '--input', `@${file}`, '--key', 'order-7')
    const first = (await submit()).out
    expect(await submit()).toMatchObject({ out: first, err: expect.stringContaining('already') })
    const chat = await brim('submit', 'hat.generate', '--prompt', 'Hello', '--max-tokens', '4', '--watch', '--json')
    expect(lines(chat.out).at(-1)).toMatchObject({ type: 'end', job: { state: 'SUCCEEDED', result: { tokens: 4 } } })
  })

  it('fails with JOB_FAILED and the reason when the job fails; --dead lists it', async () => {
    const failed = await brim('submit', 'slm.generate', '--prompt', 'Hello', '--device', 'jetson-01', '--watch')
    expect(failed).toMatchObject({ code: 1, err: expect.stringContaining('this device does not support slm.generate') })
    expect(failed.err).toContain('[JOB_FAILED]')
    expect((await brim('list', '--dead')).out).toMatch(/slm\.generate +REJECTED/)
  })

  it('installs the bundle of a folder on a device, identified by the hash of its manifest', async () => {
    const words = ['submit', 'bundle.install', '--model', world.bundle, '--device', 'jetson-02', '--watch', '--json']
    const installed = await brim(...words)
    const { modelId } = world.bridge
    expect(lines(installed.out).at(-1)).toMatchObject({
      job: {
        state: 'SUCCEEDED',
        input: { modelId, manifestSha256: expect.any(String) },
        result: { modelId, wasInstalled: false },
      },
    })
    const again = await brim('submit', 'bundle.install', '--model', modelId, '--device', 'jetson-02', '--watch')
    expect(again).toMatchObject({ code: 0, err: expect.stringMatching(/sent.*jetson-02/) })
    expect(again.out).toBe(`already installed, and its files are intact: model ${modelId}\n`)
    const unknown = await brim('submit', 'bundle.install', '--model', '0'.repeat(64), '--device', 'jetson-02')
    expect(unknown).toMatchObject({ code: 1, err: expect.stringContaining('the bridge has no bundle of model') })
  })

  it('installs a bundle on every device with a label, and reports how many jobs failed', async () => {
    for (const id of ['jetson-01', 'jetson-02']) {
      const labelled = captureIo()
      await run(['device', 'label', id, 'site=lab', '--bridge-url', world.bridge.httpUrl], labelled.io)
    }
    const install = ['submit', 'bundle.install', '--model', world.bundle, '--label', 'site=lab']
    const submitted = await brim(...install)
    expect(submitted.out).toMatch(/^DEVICE +JOB\njetson-01 +[0-9a-f]{8}-\d+\njetson-02 +[0-9a-f]{8}-\d+\n$/)
    const watched = await brim(...install, '--watch')
    expect(watched.code).toBe(0)
    expect(watched.out.match(/installed.*: model/g)).toHaveLength(2)
    const failed = await brim('submit', 'slm.generate', '--prompt', 'Hi', '--label', 'site=lab', '--watch')
    expect(failed).toMatchObject({ code: 1, err: expect.stringContaining('1 of 2 jobs failed [JOB_FAILED]') })
  })

  it('lists jobs with headers, and the device of a job that has ended', async () => {
    const id = (await brim('submit', 'profile', '--device', 'jetson-02')).out.trim()
    const { out } = await brim('watch', id)
    expect(out).toMatch(/^MODEL +TTFT +PROMPT +ANSWER +TIME\/LLM +OPENING +TOGETHER\n/)
    const [head, first] = (await brim('list', '--limit', '1')).out.split('\n')
    expect(head).toMatch(/^JOB +KIND +STATE +ATTEMPT +DEVICE +SUBMITTED +ERROR$/)
    expect(first).toMatch(new RegExp(`^${id} +profile +SUCCEEDED +1 +jetson-02 `))
    expect((await brim('show', id)).out).toMatch(/\nresult\nMODEL +TTFT/)
  })

  it('shows the whole history of a failed job, and submits with the options given', async () => {
    const { mqttUrl } = world.bridge
    const topic = (leaf: 'state' | 'jobs' | 'events') => deviceTopic('default', 'chatty', leaf)
    const client = await mqttClient(mqttUrl, 'device-chatty')
    const attempts: number[] = []
    client.on('message', (_topic, payload) => {
      const { type, bridge, job, attempt } = ToJobDevice.parse(JSON.parse(payload.toString()))
      if (type !== 'run') return
      attempts.push(attempt)
      const report = (n: number, fields: object) => {
        const event = { v: 1, bridge, job, attempt, n, at: new Date().toISOString(), ...fields }
        client.publish(topic('events'), JSON.stringify(event), { qos: 1 })
      }
      report(1, { type: 'running' })
      for (let n = 2; n < 602; n++) report(n, { type: 'text', text: 'a', from: n - 2 })
      report(602, {
        type: 'failed',
        failure: 'unavailable',
        error: { code: 'OUT_OF_MEMORY', message: `attempt ${attempt}\u001b[2J broke` },
      })
    })
    await client.subscribeAsync(topic('jobs'), { qos: 1 })
    const publishState = (state: string) => {
      const message = { v: 1, state, birth: 1, at: new Date().toISOString(), jobs: ['slm.generate'] }
      return client.publishAsync(topic('state'), JSON.stringify(message), { qos: 1, retain: true })
    }
    await publishState('ready')
    const terms = ['--attempts', '2', '--run-timeout', '600', '--step-timeout', '300', '--lost-after', '9', '--no-replace']
    const dead = await brim(
      'submit',
      'slm.generate',
      '--prompt',
      'Hi',
      '--device',
      'chatty',
      '--keep',
      'any',
      ...terms,
      '--watch',
    )
    expect(dead).toMatchObject({ code: 1, err: expect.stringContaining('attempt 2\\u001b[2J broke') })
    expect(dead.err).not.toContain('\u001b')
    await publishState('disconnected')
    await client.endAsync()
    const [{ id }] = (lines((await brim('list', '--dead', '--limit', '1', '--json')).out)[0] as { jobs: [{ id: string }] }).jobs
    // A device's message must not control the operator's terminal.
    expect((await brim('list', '--dead')).out).not.toContain('\u001b')
    const shown = await brim('show', id)
    expect(shown.out).not.toContain('\u001b')
    for (const words of [
      /failures +\{"unavailable":2\}/,
      /queued +attempt 1 at chatty: attempt 1\\u001b\[2J broke/,
      /failed +attempt 2 at chatty: attempt 2\\u001b\[2J broke/,
    ])
      expect(shown.out).toMatch(words)
    const { events } = lines((await brim('show', id, '--json')).out)[0] as { events: { seq: number }[] }
    expect(events.map(({ seq }) => seq)).toEqual(events.map((_, i) => i + 1))
    expect(events.length).toBeGreaterThan(1_200)
    expect(attempts).toEqual([1, 2])
  })

  it('cancels a queued job', async () => {
    await registerAbsentDevice(world.bridge, 'jetson-09')
    const waiting = await brim('submit', 'slm.generate', '--prompt', 'Hello', '--device', 'jetson-09')
    expect(waiting.err).toContain('device "jetson-09" is not connected')
    const id = waiting.out.trim()
    expect((await brim('show', id)).out).toMatch(/^waitsFor +device "jetson-09"/m)
    expect((await brim('cancel', id)).out).toBe(`job ${id} is canceled\n`)
    expect((await brim('list', '--state', 'CANCELED')).out).toContain(id)
  })

  it.each([
    [['show', '00000000-1'], 1, 'JOB_UNKNOWN'],
    [['submit', 'slm.generate', '--prompt', 'a', '--device', 'nosuch'], 1, 'knows no device "nosuch" [DEVICE_UNKNOWN]'],
    [['submit', 'profile', '--device', 'nosuch'], 1, '"brim device list" lists them'],
    [['submit', 'slm.generate'], 2, 'either messages or prompt'],
    [['submit', 'slm.generate', '--input', '{'], 2, '--input is not valid JSON'],
    [['submit', 'slm.generate', '--input', '@nowhere.json'], 2, 'nowhere.json cannot be read'],
    [['submit', 'slm.generate', '--input', '{}', '--prompt', 'a'], 2, '--input is the whole input'],
    [
      ['submit', 'bundle.install', '--url', 'http://a/', '--device', 'a'],
      2,
      '--model, --url, --activate and --allow-downgrade are for bundle.install',
    ],
    [['submit', 'bundle.install', '--model', 'a', '--probe', 'Hello'], 2, '--probe is for bundle.install with --activate'],
    [['submit', 'bundle.install', '--model', 'nowhere', '--device', 'a'], 1, 'nowhere is not a bundle'],
    [['submit', 'profile', '--label', 'site=moon'], 1, 'no device has the label site=moon'],
    [['submit', 'profile', '--label', 'site=lab', '--key', 'a'], 2, '--label cannot be combined with --key'],
    [['submit', 'make.coffee'], 2, 'kind make.coffee must be one of slm.generate'],
  ])('rejects %j', async (words, code, why) => {
    const rejected = await brim(...words)
    expect(rejected.code).toBe(code)
    expect(rejected.err).toContain(why)
  })

  it('reports that no bridge responds', async () => {
    const { io, err } = captureIo()
    expect(await run(['job', 'list', '--bridge-url', 'http://127.0.0.1:1'], io)).toBe(1)
    expect(err()).toContain('[BRIDGE_UNREACHABLE]')
  })
})
