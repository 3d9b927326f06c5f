import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startAgent } from '../../../agent/agent.ts'
import { readBridgeConfig } from '../../../cloud-bridge/config.ts'
import { buildTextBundle } from '../../support/agent-world.ts'
import { healthOf, startTestBridge } from '../../support/bridge.ts'
import { scriptedUpstream, streamed } from '../../support/scripted-upstream.ts'
import { shared } from '../../support/shared.ts'
import { tempDir } from '../../support/temp-dir.ts'

const dir = tempDir()
const upstream = shared(() => scriptedUpstream(streamed('In the', ' mountains.')))
let bundle: string
beforeAll(async () => {
  bundle = await buildTextBundle(dir.path)
})
afterAll(() => dir[Symbol.dispose]())

describe('a bridge without a bundle', () => {
  const bridge = shared(() =>
    startTestBridge({ upstream: { url: upstream.url, model: 'large' }, stateDir: join(dir.path, 'alone') }),
  )

  it('registers devices and gives them jobs, and refuses their sessions saying why', async () => {
    const settings = { id: 'jetson-01', bundle, bridges: [bridge.mqttUrl], apiPort: 0, threads: 1 }
    const agent = await startAgent({ ...settings, stateDir: join(dir.path, 'agent'), logLevel: 'silent' })
    try {
      const listed = async () => {
        const { devices } = (await (await fetch(`${bridge.httpUrl}/v1/devices`)).json()) as { devices: object[] }
        return devices
      }
      await expect.poll(listed).toMatchObject([{ id: 'jetson-01', state: 'ready' }])
      const body = JSON.stringify({ prompt: 'Where?', max_tokens: 4 })
      const response = await fetch(`${agent.apiUrl}/v1/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body,
      })
      const { error } = (await response.json()) as { error: { code: string; message: string } }
      expect(error).toMatchObject({ code: 'BUNDLE_MISMATCH', message: expect.stringContaining('serves no bundle') })
    } finally {
      await agent.close()
    }
  })

  it('reports that it has no model', async () => {
    expect(await healthOf(bridge)).toMatchObject({ ok: true, modelId: null, sessions: 0, kvBytes: 0 })
    expect(await (await fetch(`${bridge.httpUrl}/v1/fleet`)).json()).toMatchObject({ modelId: null })
    expect(await (await fetch(`${bridge.httpUrl}/v1/bundles`)).json()).toEqual({ bundles: [] })
  })
})

describe('the configuration of an upstream', () => {
  const read = (upstream?: object) => readBridgeConfig({ stateDir: '/state', upstream } as Parameters<typeof readBridgeConfig>[0])

  it('names the base URL of an API, or only a server', () => {
    const urlOf = (url: string) => read({ url, model: 'm' }).upstreams[0]?.url
    expect(urlOf('http://127.0.0.1:8000')).toBe('http://127.0.0.1:8000/v1')
    expect(urlOf('http://127.0.0.1:8000/')).toBe('http://127.0.0.1:8000/v1')
    expect(urlOf('https://example.org/openai/v1/')).toBe('https://example.org/openai/v1')
  })

  it('gives each server settings of its own, or those of all', () => {
    const url = ['http://a:8000', 'http://b:8000/v1  model=m,n weight=2.5 key-file=b.key continues=true']
    expect(read({ url, model: 'm', keyFile: 'key' }).upstreams).toEqual([
      { url: 'http://a:8000/v1', models: ['m'], weight: 1, keyFile: 'key', continues: false },
      { url: 'http://b:8000/v1', models: ['m', 'n'], weight: 2.5, keyFile: 'b.key', continues: true },
    ])
    expect(readBridgeConfig({ stateDir: '/state', bundle: 'b' }).upstreams).toEqual([])
  })

  it.each([
    ['neither bundle nor upstream', undefined, 'a bridge needs a bundle (--bundle) or a server that answers for it (--upstream)'],
    ['no model', { url: 'http://127.0.0.1:8000' }, 'upstream.model: is missing'],
    ['one without a model', { url: ['http://a', 'http://b model=m'] }, 'upstream.model: is missing'],
    ['a server twice', { url: ['http://a:8000', 'http://a:8000/v1 weight=2'], model: 'm' }, 'names a server twice'],
    ['a setting that does not exist', { url: ['http://a wait=2'], model: 'm' }, 'upstream.url.0: unknown: wait'],
    ['a weight of none', { url: ['http://a', 'http://b weight=0'], model: 'm' }, 'upstream.url.1: weight: must be at least 0.01'],
    ['another scheme', { url: 'ftp://127.0.0.1', model: 'm' }, 'must be a URL like http://'],
    ['a password', { url: 'http://a:b@127.0.0.1', model: 'm' }, 'a key belongs in a file'],
  ])('with %s is refused', (_, upstream, message) => {
    expect(() => read(upstream)).toThrow(message)
  })

  it.each([
    ['is missing', 'missing', undefined, 0o600, 'cannot be read'],
    ['other users can read', 'open', 'key', 0o644, 'readable by other users (mode 0644)'],
    ['holds no key', 'words', 'two words', 0o600, 'does not hold an API key'],
  ])('with a key file that %s is refused at the start', async (_, name, text, mode, message) => {
    const keyFile = join(dir.path, name)
    if (text !== undefined) writeFileSync(keyFile, text, { mode })
    const settings = { upstream: { url: upstream.url, model: 'large', keyFile }, stateDir: join(dir.path, `state-${name}`) }
    await expect(startTestBridge(settings)).rejects.toMatchObject({
      code: 'CONFIG_INVALID',
      message: expect.stringContaining(message),
    })
  })
})
