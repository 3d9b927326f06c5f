import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { run } from '../../../brim.ts'
import { openIdentityStore } from '../../../cloud-bridge/identity/store.ts'
import { createJobStore } from '../../../cloud-bridge/queue/job-store.ts'
import { jobTables } from '../../../cloud-bridge/queue/job-tables.ts'
import { newJob } from '../../../cloud-bridge/queue/submissions.ts'
import { openDatabase } from '../../../core/kit/store/open-database.ts'
import { JobSubmission } from '../../../core/wire/protocol/jobs.ts'
import { deviceTopic } from '../../../core/wire/protocol/topics.ts'
import { registerAbsentDevice } from '../../support/absent-device.ts'
import { buildSlmBundle, startAgentWorld } from '../../support/agent-world.ts'
import { startTestBridge } from '../../support/bridge.ts'
import { mqttClient, startBroker } from '../../support/broker.ts'
import { captureIo } from '../../support/captured-io.ts'
import { fixtureHost } from '../../support/device-fixture.ts'
import { postJson } from '../../support/post-json.ts'
import { runBrim } from '../../support/run-brim.ts'
import { shared } from '../../support/shared.ts'

const world = shared(startAgentWorld)
let slm: string
/** A second broker of jetson-02, where any client may be a bridge. */
const open = shared(startBroker)
beforeAll(async () => {
  slm = await buildSlmBundle(world.dir)
  await world.startAgent({ id: 'jetson-02', slms: [slm], bridges: [world.bridge.mqttUrl, open.url] })
})

const at = () => ['--bridge-url', world.bridge.httpUrl]
const brim = (...words: string[]) => runBrim([...words, ...at()])
/** A command that runs until `stop`. */
function startCommand(...words: string[]) {
  const stopping = new AbortController()
  const { io, out, err } = captureIo({ signal: stopping.signal })
  const ended = run([...words, ...at()], io)
  return {
    out,
    err,
    stop() {
      stopping.abort()
      return ended
    },
  }
}
const documents = (text: string) =>
  text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>)
const stateOf = async (device: string) => documents((await brim('device', 'show', device, '--json')).out)[0]?.state
const expectState = (device: string, state = 'ready') => expect.poll(() => stateOf(device)).toBe(state)

async function submit(count: number, body: object): Promise<string[]> {
  const jobs = Array.from({ length: count }, () => body)
  const response = await postJson(`${world.bridge.httpUrl}/v1/jobs`, { jobs })
  return ((await response.json()) as { jobs: { id: string }[] }).jobs.map(({ id }) => id)
}
const jobOf = async (id: string) =>
  (await (await fetch(`${world.bridge.httpUrl}/v1/jobs/${id}`)).json()) as { state: string; attempt: number }

describe('brim fleet status', () => {
  it('prints the bridge and a line per device in 80 columns; with --json one document', async () => {
    using orin = fixtureHost('agx-orin-jp6')
    const agent = await world.startAgent({ id: 'jetson-agx', telemetryS: 1 }, undefined, orin.host)
    await expectState('jetson-agx')
    await expect.poll(async () => (await brim('fleet', 'status')).out).toMatch(/jetson-agx +ready +AGX Orin/)
    const { out, code } = await brim('fleet', 'status')
    expect(code).toBe(0)
    expect(out).toMatch(/^bridge bridge-1 .*\n/)
    expect(out.split('\n').filter((line) => line.length > 80)).toEqual([])
    const status = async () => documents((await brim('fleet', 'status', '--json')).out)[0] as { devices: { id: string }[] }
    // Under way until then: the profile of jetson-02's small model.
    await expect.poll(status, { timeout: 30_000 }).toMatchObject({ bridge: 'bridge-1', jobs: { queued: 0, underWay: 0 } })
    const { devices } = await status()
    expect(devices.map(({ id }) => id)).toEqual(expect.arrayContaining(['jetson-01', 'jetson-02', 'jetson-agx']))
    await agent.close()
    const doctor = async () => (await brim('fleet', 'doctor', '--device', 'jetson-agx')).out
    await expect.poll(doctor).toMatch(/^0 of 1 device used\n! +jetson-agx +link +shut down .*systemctl start brim-agent/)
    expect((await brim('fleet', 'doctor', '--device', 'nobody')).code).toBe(1)
  })

  it('prints a table for each change with --watch, until its signal', async () => {
    await expectState('jetson-01')
    const watch = startCommand('fleet', 'status', '--watch', '--interval', '0.1', '--label', 'watched=yes')
    await expect.poll(watch.out).toContain('0 devices')
    await brim('device', 'label', 'jetson-01', 'watched=yes')
    await expect.poll(watch.out).toMatch(/jetson-01 +ready/)
    expect(await watch.stop()).toBe(0)
    expect((await brim('device', 'label', 'jetson-01', 'watched-')).out).toBe('jetson-01 has no labels\n')
  })
})

it('brim fleet doctor names jobs that were damaged at the bridge', async () => {
  expect((await brim('fleet', 'doctor')).out).not.toContain('! bridge')
  const database = openDatabase(join(world.dir, 'bridge', 'jobs.sqlite'), jobTables)
  const jobs = createJobStore(database, { next: () => 0 }, { attemptBytes: 1, deviceBytesPerDay: 1 })
  const submission = JobSubmission.parse({ kind: 'profile', input: {}, device: 'nowhere' })
  const { id } = jobs.submit([newJob(submission)], Date.now())[0]!
  database.prepare("UPDATE jobs SET terms = '{' WHERE target = 'nowhere'").run()
  jobs.cancel(id, Date.now())
  database.close()
  expect((await brim('fleet', 'doctor')).out).toMatch(/! bridge bridge-1 +damaged-jobs +1 job was damaged .*brim job list --dead/)
  expect((await brim('job', 'list', '--dead')).out).toContain(id)
})

it('brim fleet status prints colours only on a terminal, and none with NO_COLOR', async () => {
  const shown = async (outIsTty: boolean, env: Record<string, string>) => {
    const { io, out } = captureIo({ env })
    await run(['fleet', 'status', ...at()], { ...io, outIsTty })
    return out().includes('\u001b[')
  }
  await expectState('jetson-01')
  expect([await shown(true, {}), await shown(true, { NO_COLOR: '1' }), await shown(false, {})]).toEqual([true, false, false])
})

describe('labels', () => {
  it('select devices, are validated, and are logged in the audit log', async () => {
    await expectState('jetson-01')
    await expectState('jetson-02')
    expect((await brim('device', 'label', 'jetson-01', 'site=lab', 'rack=a1')).out).toBe('rack=a1 site=lab\n')
    await brim('device', 'label', 'jetson-02', 'site=lab')
    const listed = async (...words: string[]) => {
      const [found] = documents((await brim('device', 'list', '--json', ...words)).out) as [{ devices: { id: string }[] }]
      return found.devices.map(({ id }) => id)
    }
    expect(await listed('--label', 'site=lab')).toEqual(['jetson-01', 'jetson-02'])
    expect(await listed('--label', 'site=lab', '--label', 'rack=a1')).toEqual(['jetson-01'])
    expect((await brim('fleet', 'status', '--label', 'site=moon')).out).toContain('0 devices: none has that label')
    expect((await brim('device', 'list')).out).toMatch(/jetson-01 +ready .* rack=a1 site=lab/)
    expect((await brim('fleet', 'status', '--label', 'rack=a1')).out).not.toContain('jetson-02')
    const store = openIdentityStore(join(world.dir, 'bridge'))
    expect(store.audit(2)).toMatchObject([{ action: 'device.label', subject: 'jetson-02' }, { subject: 'jetson-01' }])
    store.close()
    expect(await brim('device', 'label', 'jetson-01', 'Site=lab')).toMatchObject({
      code: 2,
      err: expect.stringContaining('a label key has'),
    })
    expect(await brim('device', 'label', 'jetson-01', 'nonsense')).toMatchObject({
      code: 2,
      err: expect.stringContaining('neither key=value nor key-'),
    })
    await brim('device', 'label', 'jetson-01', 'site-', 'rack-')
    await brim('device', 'label', 'jetson-02', 'site-')
  })
})

it('brim device list and brim fleet status include devices that wait for approval and have never connected', async () => {
  const store = openIdentityStore(join(world.dir, 'bridge'))
  const request = { group: 'field', uses: 1, expiresS: 60, approve: false }
  const { secret } = store.createToken('operator:test', request)
  store.enrol({ device: 'newcomer', publicKey: 'A'.repeat(43), token: secret, hardware: undefined }, '127.0.0.1')
  store.close()
  expect((await brim('device', 'list')).out).toMatch(
    /^DEVICE +STATE +SEEN +GROUP +KEY UNTIL +LABELS\n(.*\n)*newcomer +pending +– +field /,
  )
  expect((await brim('device', 'show', 'newcomer')).out).toMatch(/state +never connected/)
  expect((await brim('device', 'list', '--json')).out).not.toContain('A'.repeat(43))
  expect((await brim('fleet', 'status')).out).toMatch(/! 1 waiting for approval: newcomer\n[\s\S]*\nnewcomer +pending +– /)
})

describe('brim device drain', () => {
  it('lets a device finish its jobs and dispatches no others to it until undrain', async () => {
    await expectState('jetson-02')
    const ids = await submit(30, { kind: 'slm.generate', input: { prompt: 'Can you', maxTokens: 24 }, device: 'jetson-02' })
    const drained = await brim('device', 'drain', 'jetson-02', '--wait')
    expect(drained).toMatchObject({ code: 0, out: 'jetson-02: drained\n' })
    expect(await stateOf('jetson-02')).toBe('draining')
    const waiting = []
    for (const id of ids) {
      const { state, attempt } = await jobOf(id)
      if (state === 'QUEUED') waiting.push(id)
      // No dispatched job was lost or repeated by another attempt.
      else expect([state, attempt]).toEqual(['SUCCEEDED', 1])
    }
    expect(waiting.length).toBeGreaterThan(0)
    expect((await brim('device', 'undrain', 'jetson-02')).out).toBe('jetson-02: takes jobs again\n')
    for (const id of waiting) await expect.poll(async () => (await jobOf(id)).state).toBe('SUCCEEDED')
  })

  it('leaves the API of a draining device open, and survives a restart of the agent', async () => {
    const agent = await world.startAgent({ id: 'jetson-03' })
    await expectState('jetson-03')
    await brim('device', 'drain', 'jetson-03')
    await agent.close()
    await expectState('jetson-03', 'disconnected')
    const again = await world.startAgent({ id: 'jetson-03' })
    await expectState('jetson-03', 'draining')
    expect(await (await fetch(`${again.apiUrl}/health`)).json()).toMatchObject({ draining: true })
    const answer = await postJson(`${again.apiUrl}/v1/completions`, { prompt: 'Can you', max_tokens: 2 })
    expect(answer.status).toBe(200)
    await again.close()
    await expectState('jetson-03', 'disconnected')
  })

  it('expires for a disconnected device, which does not run it later', async () => {
    const expired = await brim('device', 'drain', 'jetson-03', '--timeout', '1')
    expect(expired).toMatchObject({
      code: 1,
      err: expect.stringMatching(/expired before jetson-03 replied: the device was not connected \[COMMAND_EXPIRED\]/),
    })
    const sent = documents((await brim('device', 'undrain', 'jetson-03', '--no-wait', '--json')).out)[0] as { id: string }
    expect(sent).toMatchObject({ state: 'SENT', wish: { type: 'undrain' } })
    const agent = await world.startAgent({ id: 'jetson-03' })
    await expectState('jetson-03', 'ready')
    const shown = (await brim('device', 'show', 'jetson-03')).out
    expect(shown).toMatch(/undrain {2}DONE {2}by anyone\n.*drain {2}EXPIRED/)
    await agent.close()
  })

  it('reports the refusal of a device', async () => {
    const device = await mqttClient(world.bridge.mqttUrl, 'device-old')
    const topic = (leaf: 'state' | 'commands' | 'replies') => deviceTopic('default', 'old', leaf)
    device.on('message', (_, payload) => {
      const { bridge, id } = JSON.parse(payload.toString()) as { bridge: string; id: string }
      const reply = { v: 1, bridge, id, at: new Date().toISOString(), outcome: 'refused', reason: 'too old' }
      device.publish(topic('replies'), JSON.stringify(reply), { qos: 1 })
    })
    await device.subscribeAsync(topic('commands'), { qos: 1 })
    const state = { v: 1, state: 'ready', birth: 1, at: new Date().toISOString() }
    await device.publishAsync(topic('state'), JSON.stringify(state), { qos: 1 })
    await expectState('old')
    const refused = await brim('device', 'drain', 'old')
    expect(refused).toMatchObject({ code: 1, err: expect.stringContaining('old refuses "drain": too old [COMMAND_REFUSED]') })
    await device.publishAsync(topic('state'), JSON.stringify({ ...state, state: 'disconnected' }), { qos: 1 })
    await device.endAsync()
  })

  it('drains every device with a label, and prints a line for each', async () => {
    for (const id of ['jetson-01', 'jetson-02']) await brim('device', 'label', id, 'site=roof')
    expect((await brim('device', 'drain', '--label', 'site=roof')).out).toBe('jetson-01: drained\njetson-02: drained\n')
    const undrained = await brim('device', 'undrain', '--label', 'site=roof', '--json')
    expect(documents(undrained.out)).toMatchObject([
      { device: 'jetson-01', state: 'DONE' },
      { device: 'jetson-02', state: 'DONE' },
    ])
  })
})

describe('brim device show, watch and logs', () => {
  it('show prints known figures in readable units, with --all the unknown ones too, and with --json the document', async () => {
    await expectState('jetson-01')
    await expect.poll(async () => (await brim('device', 'show', 'jetson-01')).out).toMatch(/\nmemory\n {2}total +[\d.]+ GiB\n/)
    // A figure outside the sections is no empty section.
    const [shown, all] = [await brim('device', 'show', 'jetson-01'), await brim('device', 'show', 'jetson-01', '--all')]
    expect(shown.out).toMatch(/\ntelemetry\n {2}clock is set +yes\n/)
    expect(shown.out).toMatch(/\n {2}LLM on +\w+: \S.*\n/)
    expect(shown.out).not.toMatch(/unknown|\n {2}none|[a-z](?:Bytes|Percent|MHz|Ms|C|W)\b/)
    expect(all.out).toMatch(/\nbattery\n {2}none\n[\s\S]* EMC clock +unknown\n|EMC clock +unknown\n[\s\S]*\nbattery\n {2}none\n/)
    const [document] = documents((await brim('device', 'show', 'jetson-01', '--json')).out)
    expect(document).toMatchObject({ id: 'jetson-01', identity: null, telemetry: { memory: { totalBytes: expect.any(Number) } } })
  })

  it('watch streams states, labels and commands', async () => {
    await expectState('jetson-01')
    const watch = startCommand('device', 'watch', 'jetson-01', '--json')
    await expect.poll(watch.out).toContain('"type":"device"')
    await brim('device', 'label', 'jetson-01', 'seen=yes')
    await brim('device', 'drain', 'jetson-01')
    await brim('device', 'undrain', 'jetson-01')
    const changes = () => documents(watch.out()).map(({ type, now }) => `${type} ${(now as { state: string }).state}`)
    await expect.poll(changes).toEqual(expect.arrayContaining(['labels ready', 'state draining', 'state ready']))
    expect(documents(watch.out())).toContainEqual(expect.objectContaining({ type: 'commands', device: 'jetson-01' }))
    expect(await watch.stop()).toBe(0)
  })

  it('logs prints warnings, and with --follow and --level every line', async () => {
    await expectState('jetson-02')
    const follow = startCommand('device', 'logs', 'jetson-02', '--follow', '--level', 'info')
    // The device logs the command itself: from then on it reports every line.
    await expect.poll(follow.out).toMatch(/INFO {2}remote {3}command ended .* type=logs/)
    const bridge = await mqttClient(open.url, 'bridge-other')
    await bridge.publishAsync(deviceTopic('default', 'jetson-02', 'jobs'), 'garbage', { qos: 1 })
    const [job] = await submit(1, {
      kind: 'slm.generate',
      input: { prompt: 'a secret question', maxTokens: 2 },
      device: 'jetson-02',
    })
    await expect.poll(follow.out).toContain(`job ended job=${job}`)
    expect(await follow.stop()).toBe(0)
    expect(follow.out()).not.toContain('secret')
    const warned = await brim('device', 'logs', 'jetson-02')
    expect(warned.out).toMatch(/^\S+Z WARN {2}jobs {5}unreadable job message ignored error=MESSAGE_INVALID\n$/)
    expect((await brim('device', 'show', 'jetson-02')).out).toContain('unreadable job message')
    await bridge.endAsync()
  })
})

it('brim device remove deletes a device that is not connected, and cancels its jobs', async () => {
  await expectState('jetson-01')
  expect(await brim('device', 'remove', 'jetson-01')).toMatchObject({ code: 2, err: expect.stringContaining('is connected') })
  await registerAbsentDevice(world.bridge, 'gone')
  await brim('device', 'label', 'gone', 'site=old')
  const [job] = await submit(1, { kind: 'slm.generate', input: { prompt: 'Can you' }, device: 'gone' })
  expect((await brim('device', 'remove', 'gone')).out).toBe('device gone removed; 1 of its jobs canceled\n')
  expect((await jobOf(job!)).state).toBe('CANCELED')
  expect((await brim('device', 'list')).out).not.toContain('gone')
  const store = openIdentityStore(join(world.dir, 'bridge'))
  expect(store.audit(1)).toMatchObject([{ action: 'device.remove', subject: 'gone', outcome: 'ok' }])
  store.close()
  // Nothing of it is left at the broker, nor in the bridge's files.
  const watcher = await mqttClient(world.bridge.mqttUrl, 'watcher')
  const retained: string[] = []
  watcher.on('message', (topic) => void retained.push(topic))
  await watcher.subscribeAsync('brim/v1/default/device/+/state', { qos: 1 })
  await expect.poll(() => retained).toContain(deviceTopic('default', 'jetson-01', 'state'))
  expect(retained).not.toContain(deviceTopic('default', 'gone', 'state'))
  await watcher.endAsync()
  await registerAbsentDevice(world.bridge, 'gone')
  expect(documents((await brim('device', 'show', 'gone', '--json')).out)).toMatchObject([{ labels: {}, telemetry: null }])
  await brim('device', 'remove', 'gone')
  // An enrolment outlives that this bridge requires no proof.
  expect((await brim('device', 'remove', 'newcomer')).err).toContain('only the key of an admin removes it [FORBIDDEN]')
})

it.each([
  [['device', 'remove', 'no-such-device'], 1, 'DEVICE_UNKNOWN'],
  [['device', 'show', 'no-such-device'], 1, 'DEVICE_UNKNOWN'],
  [['device', 'watch', 'no-such-device'], 1, '"brim device list" lists them'],
  [['device', 'logs', 'no-such-device'], 1, 'DEVICE_UNKNOWN'],
  [['device', 'drain', 'no-such-device'], 1, 'DEVICE_UNKNOWN'],
  [['device', 'drain'], 2, 'give the name of one device, or --label'],
  [['device', 'drain', '--label', 'site=moon'], 1, 'no device has the label site=moon'],
  [['device', 'drain', 'jetson-01', '--timeout', '0'], 2, '--timeout 0 must be above 0'],
  [['device', 'list', '--label', 'site'], 2, 'not of the form key=value'],
  [['fleet', 'status', '--watch', '--interval', '0'], 2, '--interval'],
])('rejects %j', async (words, code, why) => {
  const rejected = await brim(...words)
  expect(rejected.err).toContain(why)
  expect(rejected.code).toBe(code)
})

it('reports that no bridge responds', async () => {
  const { io, err } = captureIo()
  expect(await run(['fleet', 'status', '--bridge-url', 'http://127.0.0.1:1'], io)).toBe(1)
  expect(err()).toContain('[BRIDGE_UNREACHABLE]')
})

it('labels and drained devices survive a restart of the bridge; brim device watch reconnects', async () => {
  await using own = await startAgentWorld()
  const ask = async (url: string, ...words: string[]) => {
    const { io, out } = captureIo()
    await run([...words, '--bridge-url', url], io)
    return out()
  }
  const { httpUrl, mqttUrl } = own.bridge
  await expect.poll(() => ask(httpUrl, 'device', 'list')).toContain('ready')
  await ask(httpUrl, 'device', 'label', 'jetson-01', 'site=lab')
  await ask(httpUrl, 'device', 'drain', 'jetson-01')
  const stopping = new AbortController()
  const { io, out, err } = captureIo({ signal: stopping.signal })
  const watching = run(['device', 'watch', '--bridge-url', httpUrl], io)
  await expect.poll(out).toContain('draining')
  await own.bridge.close()
  await expect.poll(err).toContain('reconnecting')
  const ports = { mqttPort: Number(new URL(mqttUrl).port), httpPort: Number(new URL(httpUrl).port) }
  await using _again = await startTestBridge({ bundle: own.bundle, stateDir: join(own.dir, 'bridge'), ...ports })
  await expect.poll(() => ask(httpUrl, 'device', 'list')).toMatch(/jetson-01 +draining .* site=lab/)
  await expect.poll(() => out().match(/draining/g)?.length).toBeGreaterThan(1)
  stopping.abort()
  await watching
})
