import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { exitCodeOf, toErrorText } from '../../../core/kit/base/errors.ts'
import { lockFolder } from '../../../core/kit/store/lock-folder.ts'
import { portOf, startRelay, through } from '../../../lab/cluster/relay.ts'
import { buildSlmBundle, startAgentWorld } from '../../support/agent-world.ts'
import { brim } from '../../support/brim.ts'
import { captureIo } from '../../support/captured-io.ts'
import { shared } from '../../support/shared.ts'
import { tempDir } from '../../support/temp-dir.ts'

const world = shared(startAgentWorld)

describe('brim ask', () => {
  const question = ['ask', 'Where is the mill?', '--max-tokens', '9', '--api']

  it('prints the answer alone on stdout, its figures on stderr', async () => {
    const { io, out, err } = captureIo()
    await brim([...question, world.agent.apiUrl], io)
    const { io: again, out: json } = captureIo()
    await brim([...question, world.agent.apiUrl, '--json'], again)
    const answer = JSON.parse(json()) as { text: string; computing: object; reference?: string }
    expect(out()).toBe(`${answer.text}\n`)
    // On a GPU the answer would have `reference` too, and stderr would say it.
    expect([answer.computing, answer.reference]).toEqual([{ provider: 'cpu', reason: expect.any(String) }, undefined])
    expect(err()).toMatch(
      /^TTFT [\d.]+ ms · TBT p50 [\d.]+ ms, p95 [\d.]+ ms · accept length [\d.]+ \([a-z+]+( ahead)?\) · up [\d.]+ kB, down [\d.]+ kB( · \d+ prompt tokens reused)?\n$/,
    )
  })

  it('prints on stderr which tokens the small model decoded, and why', async () => {
    const slm = await buildSlmBundle(world.dir)
    const { apiUrl } = await world.startAgent({ id: 'independent', bridges: ['mqtt://127.0.0.1:1'], slms: [slm] })
    const asked = [...question, apiUrl, '--fallback', 'slm']
    const { io, out, err } = captureIo()
    await brim(asked, io)
    const { io: again, out: json } = captureIo()
    await brim([...asked, '--json'], again)
    expect(out().length).toBeGreaterThan(1)
    expect(err()).toMatch(/ · all tokens by the local tiny-slm: .*mqtt:\/\/127\.0\.0\.1:1.* \[BRIDGE_UNREACHABLE\]\n$/)
    expect(JSON.parse(json())).toMatchObject({
      text: out().slice(0, -1),
      tokens: 9,
      sources: [{ from: 0, tokens: 9, source: 'slm', model: 'tiny-slm' }],
      fallback: { code: 'BRIDGE_UNREACHABLE' },
    })
    expect(await (await fetch(`${apiUrl}/health`)).json()).toMatchObject({ slm: 'tiny-slm' })
    await expect(brim([...asked.slice(0, -1), 'none'], captureIo().io)).rejects.toMatchObject({ code: 'BRIDGE_UNREACHABLE' })
  })

  it('prints one JSON document with --json', async () => {
    const { io, out, err } = captureIo()
    await brim([...question, world.agent.apiUrl, '--json', '--system', 'Be brief.', '--temperature', '0.8', '--seed', '3'], io)
    expect(err()).toBe('')
    expect(JSON.parse(out())).toMatchObject({
      text: expect.any(String),
      finishReason: 'length',
      tokens: 9,
      promptTokens: expect.any(Number),
      mode: 'hat',
      ttftMs: expect.any(Number),
      tbtMs: { p50: expect.any(Number), p95: expect.any(Number) },
      acceptLength: expect.any(Number),
      bytesUp: expect.any(Number),
      bytesDown: expect.any(Number),
    })
  })

  it('exits with 3 and a hint when no agent responds', async () => {
    const { io } = captureIo()
    const closed = await startRelay(1)
    await closed[Symbol.asyncDispose]()
    const error = await brim([...question, `http://127.0.0.1:${closed.port}`], io).then(
      () => undefined,
      (thrown: unknown) => thrown,
    )
    expect(exitCodeOf(error)).toBe(3)
    expect(toErrorText(error)).toMatch(
      /no agent responds at http:\/\/127\.0\.0\.1:\d+ \[AGENT_UNREACHABLE\]\n.*why: .*ECONNREFUSED.*\n.*try: start one with "brim agent run"/,
    )
  })

  it("throws the agent's own error", async () => {
    const lonely = await world.startAgent({ id: 'lonely', bridges: ['mqtt://127.0.0.1:1'] })
    await expect(brim([...question, lonely.apiUrl], captureIo().io)).rejects.toMatchObject({ code: 'BRIDGE_UNREACHABLE' })
    const tooLong = brim([...question.slice(0, 2), '--max-tokens', '9999', '--api', world.agent.apiUrl], captureIo().io)
    await expect(tooLong).rejects.toMatchObject({ code: 'CONTEXT_OVERFLOW' })
  })
})

describe('brim agent run', () => {
  const argv = (id: string) => [
    'agent',
    'run',
    '--bundle',
    world.bundle,
    '--id',
    id,
    '--bridge',
    world.bridge.mqttUrl,
    '--api-port',
    '0',
    '--threads',
    '1',
    '--state-dir',
    join(world.dir, id),
  ]

  it('prints its URLs in one line, answers, and ends with its signal', async () => {
    const stop = new AbortController()
    const { io, out } = captureIo({ signal: stop.signal })
    const running = brim([...argv('by-command'), '--json'], io)
    await expect.poll(out).not.toBe('')
    const ready = JSON.parse(out()) as { apiUrl: string }
    expect(ready).toMatchObject({ event: 'ready', device: 'by-command' })
    const { io: asking, out: answer } = captureIo()
    await brim(['ask', 'Who?', '--max-tokens', '3', '--api', ready.apiUrl], asking)
    expect(answer()).not.toBe('')
    stop.abort()
    await running
    expect(out().trim().split('\n')).toHaveLength(1)
    await expect(fetch(ready.apiUrl)).rejects.toThrow()
  })

  it('connects to the data plane at --data-url, not at the URL that the bridge announces', async () => {
    await using tunnel = await startRelay(portOf(world.bridge.dataUrl))
    const stop = new AbortController()
    const { io, out } = captureIo({ signal: stop.signal })
    const running = brim([...argv('behind-a-tunnel'), '--data-url', through(tunnel, world.bridge.dataUrl), '--json'], io)
    await expect.poll(out).not.toBe('')
    const { apiUrl } = JSON.parse(out()) as { apiUrl: string }
    await brim(['ask', 'Who?', '--max-tokens', '3', '--api', apiUrl], captureIo().io)
    expect(tunnel.connections).toHaveLength(1)
    expect(tunnel.bytes().up).toBeGreaterThan(500)
    stop.abort()
    await running
  })

  it('accepts --dead-band for known figures only', async () => {
    const run = (...bands: string[]) =>
      brim(
        ['agent', 'run', '--bundle', 'nowhere', '--id', 'a', ...bands.flatMap((band) => ['--dead-band', band])],
        captureIo().io,
      )
    await expect(run('hottestC=2', 'miles=3')).rejects.toMatchObject({
      code: 'CONFIG_INVALID',
      message: expect.stringContaining('ends with "miles"'),
    })
    await expect(run('hottestC')).rejects.toMatchObject({
      code: 'USAGE',
      message: expect.stringContaining('--dead-band hottestC must be like'),
    })
  })

  it('rejects a device name that is not valid in a topic', async () => {
    await expect(brim(argv('a/b'), captureIo().io)).rejects.toMatchObject({ code: 'USAGE' })
  })
})

it('brim agent reset-identity refuses to change the key of a running agent', async () => {
  using dir = tempDir()
  const { io, out } = captureIo()
  const reset = () => brim(['agent', 'reset-identity', '--id', 'a', '--state-dir', dir.path, '--json'], io)
  const unlock = lockFolder(dir.path)
  await expect(reset()).rejects.toMatchObject({ code: 'STATE_IN_USE' })
  unlock()
  await reset()
  expect(JSON.parse(out())).toMatchObject({ device: 'a', publicKey: expect.any(String) })
})

describe('brim agent sample', () => {
  it('prints a sample, and what it cost', async () => {
    const { io, out } = captureIo()
    await brim(['agent', 'sample'], io)
    const end = out().lastIndexOf('}') + 1
    const sample = JSON.parse(out().slice(0, end)) as { load: { cpuPercent: number } }
    expect(sample).toMatchObject({ device: { kind: expect.any(String) }, memory: { totalBytes: expect.any(Number) } })
    expect(out().slice(end)).toMatch(/^\n[\d.]+ ms of CPU: [\d.]+ % of a core every 10 s\n$/)
  })

  it('reads a copy of another device with --root, and prints one JSON document', async () => {
    using root = tempDir()
    mkdirSync(join(root.path, 'proc'))
    writeFileSync(join(root.path, 'proc/meminfo'), 'MemTotal: 100 kB\nMemAvailable: 40 kB\n')
    const { io, out } = captureIo()
    await brim(['agent', 'sample', '--root', root.path, '--count', '3', '--every', '5', '--json'], io)
    expect(JSON.parse(out())).toMatchObject({
      sample: { device: { kind: 'linux' }, memory: { totalBytes: 102_400, freeBytes: 40_960 }, battery: null },
      count: 3,
      cpuMs: expect.any(Number),
      percentOfCore: expect.any(Number),
    })
  })

  it.each([
    ['--count', '0'],
    ['--count', 'many'],
    ['--every', '0'],
  ])('rejects %s %s', async (...words) => {
    await expect(brim(['agent', 'sample', ...words], captureIo().io)).rejects.toMatchObject({ code: 'USAGE' })
  })
})
