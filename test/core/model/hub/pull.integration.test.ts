import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { brim } from '../../../support/brim.ts'
import { captureIo } from '../../../support/captured-io.ts'
import { tinyCheckpoint } from '../../../support/checkpoint.ts'
import { breakAfter, filesOf, refuse, repo, startHub, type TestHub } from '../../../support/hub.ts'
import { fresh } from '../../../support/shared.ts'
import { mountMissing, smallDisk } from '../../../support/small-disk.ts'
import { tempDir } from '../../../support/temp-dir.ts'

const weights = 'model.safetensors'

const dir = fresh(tempDir)
let hub: TestHub
let home: string
beforeEach(async () => {
  home = join(dir.path, 'home')
  const files = filesOf(await tinyCheckpoint(join(dir.path, 'made')))
  files.set('README.md', Buffer.from('# Tiny'))
  files.set('pytorch_model.bin', Buffer.alloc(1_000))
  hub = await startHub(files)
})
afterEach(() => hub[Symbol.asyncDispose]())

const models = (at = home) => join(at, '.cache/brim/models', repo)
const whole = () => join(models(), hub.commit)
const partial = (at = home) => join(models(at), `${hub.commit}.partial`)
const paths = (host: 'hub' | 'cdn') => hub.requests.filter((each) => each.host === host).map(({ path }) => path)

async function run(args: string[], { env = {}, signal }: { env?: Record<string, string>; signal?: AbortSignal } = {}) {
  const captured = captureIo({ env: { HOME: home, HF_ENDPOINT: hub.url, ...env }, ...(signal ? { signal } : {}) })
  const error = await brim(['model', ...args], captured.io).then(
    () => undefined,
    (thrown: unknown) => thrown as Error,
  )
  return { out: captured.out(), err: captured.err(), error }
}
const pull = (name = repo, options = {}) => run(['pull', name, '--json'], options)

const fileUrls = () => hub.requests.filter(({ path }) => path.includes('/resolve/'))

describe('brim model pull', () => {
  it('downloads what a build reads, and builds from it', async () => {
    const { out, error } = await pull()
    expect(error).toBeUndefined()
    const pulled = JSON.parse(out)
    expect(pulled).toMatchObject({ model: repo, commit: hub.commit, path: whole() })
    expect(pulled.fetchedBytes).toBe(pulled.bytes)
    expect(readdirSync(whole()).sort()).toEqual(['config.json', weights])
    for (const name of readdirSync(whole())) expect(readFileSync(join(whole(), name)).equals(hub.files.get(name)!)).toBe(true)
    expect(existsSync(partial())).toBe(false)

    const requests = fileUrls().length
    const built = await run(['build', repo, '--format', 'fp32', '--out', join(dir.path, 'bundle'), '--json'])
    expect(JSON.parse(built.out).card).toMatchObject({ name: 'tiny', family: 'llama' })
    expect(fileUrls()).toHaveLength(requests)
    expect(JSON.parse((await pull()).out)).toMatchObject({ bytes: pulled.bytes, fetchedBytes: 0 })
  })

  it('needs no network for a commit that is present', async () => {
    await pull()
    hub.requests.length = 0
    expect(JSON.parse((await pull(`${repo}@${hub.commit}`)).out).path).toBe(whole())
    expect(hub.requests).toEqual([])
  })

  it('downloads the shards that the index names', async () => {
    const tensors = hub.files.get(weights)!
    hub.files.delete(weights)
    hub.files.set('model-00001-of-00001.safetensors', tensors)
    hub.files.set('consolidated.safetensors', tensors)
    const index = { weight_map: { 'model.norm.weight': 'model-00001-of-00001.safetensors' } }
    hub.files.set('model.safetensors.index.json', Buffer.from(JSON.stringify(index)))
    expect((await pull()).error).toBeUndefined()
    expect(readdirSync(whole()).sort()).toEqual([
      'config.json',
      'model-00001-of-00001.safetensors',
      'model.safetensors.index.json',
    ])

    hub.files.delete('model-00001-of-00001.safetensors')
    hub.files.set(weights.replace('.', '-00009.'), tensors)
    const other = await startHub(hub.files, 'd'.repeat(40))
    const { error } = await pull(repo, { env: { HF_ENDPOINT: other.url } })
    expect(error).toMatchObject({ code: 'CHECKPOINT_NOT_FOUND', message: expect.stringContaining('its index names') })
    await other[Symbol.asyncDispose]()
  })

  it('sends the token to the hub, and to no other host', async () => {
    mkdirSync(join(home, '.cache/huggingface'), { recursive: true })
    writeFileSync(join(home, '.cache/huggingface/token'), 'hf_from_file\n')
    expect((await pull()).error).toBeUndefined()
    const of = (host: string) => [...new Set(hub.requests.filter((each) => each.host === host).map((each) => each.authorization))]
    expect(of('hub')).toEqual(['Bearer hf_from_file'])
    expect(paths('cdn')).toHaveLength(1)
    expect(of('cdn')).toEqual([undefined])
    hub.requests.length = 0
    await pull(`${repo}@v1`, { env: { HF_TOKEN: 'hf_from_env', HOME: join(dir.path, 'other') } })
    expect(of('hub')).toEqual(['Bearer hf_from_env'])
  })

  it('does not take a redirect of a list with the token to another host', async () => {
    const other = await startHub(hub.files)
    hub.onAsk = (request, response) => {
      response.writeHead(307, { location: other.url + request.url }).end()
      return true
    }
    await pull(repo, { env: { HF_TOKEN: 'hf_secret' } })
    expect(other.requests.length).toBeGreaterThan(0)
    expect(other.requests.every(({ authorization }) => authorization === undefined)).toBe(true)
    await other[Symbol.asyncDispose]()
  })

  it('continues after a connection that breaks', async () => {
    let breaks = 0
    hub.onDownload = (request, response, body) => breaks++ === 0 && breakAfter(50_000, request, response, body)
    const { out, error } = await pull()
    expect(error).toBeUndefined()
    expect(hub.requests.filter(({ host }) => host === 'cdn').map(({ range }) => range)).toEqual([undefined, 'bytes=50000-'])
    expect(JSON.parse(out).fetchedBytes).toBe(JSON.parse(out).bytes)
    expect(readFileSync(join(whole(), weights)).equals(hub.files.get(weights)!)).toBe(true)
  })

  it('continues after Ctrl-C, also where the server ignores ranges', async () => {
    const stop = new AbortController()
    hub.onDownload = (request, response, body) => {
      setTimeout(() => stop.abort(new Error('interrupted')), 200)
      response.writeHead(200, { 'content-length': body.length })
      response.write(body.subarray(0, 60_000))
      return request.url !== undefined
    }
    expect((await pull(repo, { signal: stop.signal })).error?.message).toBe('interrupted')
    expect(existsSync(whole())).toBe(false)
    expect(statSync(join(partial(), weights)).size).toBe(60_000)
    hub.onDownload = (_, response, body) => {
      response.writeHead(200, { 'content-length': body.length }).end(body)
      return true
    }
    expect((await pull()).error).toBeUndefined()
    expect(hub.requests.at(-1)?.range).toBe('bytes=60000-')
    expect(readFileSync(join(whole(), weights)).equals(hub.files.get(weights)!)).toBe(true)
  })

  it('continues after kill -9, and the next pull need not wait for the dead one', async () => {
    hub.onDownload = (_, response, body) => {
      response.writeHead(200, { 'content-length': body.length })
      response.write(body.subarray(0, 70_000))
      return true
    }
    const program = fileURLToPath(new URL('../../../../dist/brim.js', import.meta.url))
    const env = { ...process.env, HOME: home, XDG_CACHE_HOME: '', HF_ENDPOINT: hub.url }
    const child = spawn(process.execPath, [program, 'model', 'pull', repo], { env, stdio: 'ignore' })
    const exit = new Promise((resolve) => child.once('exit', resolve))
    await expect.poll(() => statSync(join(partial(), weights), { throwIfNoEntry: false })?.size).toBe(70_000)
    child.kill('SIGKILL')
    await exit
    hub.onDownload = () => false
    const { err, error } = await pull()
    expect(error).toBeUndefined()
    expect(err).not.toContain('waiting')
    expect(hub.requests.at(-1)?.range).toBe('bytes=70000-')
    expect(readFileSync(join(whole(), weights)).equals(hub.files.get(weights)!)).toBe(true)
  })

  it('waits for another pull of the same model', async () => {
    let go = () => {}
    const gate = new Promise<void>((resolve) => {
      go = resolve
    })
    hub.onDownload = (_, response, body) => {
      void gate.then(() => response.writeHead(200, { 'content-length': body.length }).end(body))
      return true
    }
    const first = pull()
    await expect.poll(() => paths('cdn').length).toBe(1)
    const { io, out, err } = captureIo({ env: { HOME: home, HF_ENDPOINT: hub.url } })
    const second = brim(['model', 'pull', repo, '--json'], io)
    await expect.poll(err).toMatch(/another process downloads acme\/tiny/)
    go()
    expect((await first).error).toBeUndefined()
    await second
    expect(JSON.parse(out()).fetchedBytes).toBe(0)
    expect(paths('cdn')).toHaveLength(1)
  })

  it.each<[string, TestHub['onDownload'], RegExp]>([
    [
      'another content',
      (_, response, body) => {
        response.writeHead(200, { 'content-length': body.length }).end(Buffer.alloc(body.length))
        return true
      },
      /model\.safetensors of acme\/tiny .* its sha256 is wrong/,
    ],
    [
      'more bytes than announced',
      (_, response, body) => {
        response.writeHead(200).end(Buffer.concat([body, body]))
        return true
      },
      /more than the announced \d+ bytes/,
    ],
  ])('refuses %s, and leaves nothing that a build would take', async (_, respond, words) => {
    hub.onDownload = respond
    const { error } = await pull()
    expect(error).toMatchObject({ code: 'HUB_INVALID', message: expect.stringMatching(words) })
    expect(existsSync(whole())).toBe(false)
    hub.onDownload = () => false
    expect((await pull()).error).toBeUndefined()
    expect(readFileSync(join(whole(), weights)).equals(hub.files.get(weights)!)).toBe(true)
  })

  it('refuses a small file of another content', async () => {
    hub.onAsk = (request, response) => {
      if (!request.url?.endsWith('/config.json')) return false
      response.end(Buffer.alloc(hub.files.get('config.json')!.length, ' '))
      return true
    }
    expect((await pull()).error).toMatchObject({ code: 'HUB_INVALID', message: expect.stringContaining('sha1') })
    expect(existsSync(whole())).toBe(false)
  })

  it.each<[string, number, string | undefined, string, RegExp]>([
    ['a gated model', 403, 'GatedRepo', 'HUB_REFUSED', /accept its terms at .*acme\/tiny, then set HF_TOKEN/],
    ['an unknown name', 401, 'RepoNotFound', 'HUB_REFUSED', /check the name/],
    ['an unknown model', 404, 'RepoNotFound', 'HUB_NOT_FOUND', /check the name/],
    ['a long limit of the rate', 429, undefined, 'HUB_UNAVAILABLE', /a token has a higher limit/],
  ])('names the remedy for %s', async (_, status, code, expected, hint) => {
    hub.onAsk = (_, response) => {
      refuse(response, status, code, { 'retry-after': '300' })
      return true
    }
    expect((await pull()).error).toMatchObject({ code: expected, hint: expect.stringMatching(hint) })
    expect(hub.requests).toHaveLength(1)
  })

  it('names a revision that is missing, and retries a short limit of the rate', async () => {
    expect((await pull(`${repo}@v9`)).error).toMatchObject({ code: 'HUB_NOT_FOUND', message: expect.stringContaining('v9') })
    let limited = 0
    hub.onAsk = (_, response) => {
      if (limited++ > 0) return false
      refuse(response, 429, undefined, { 'retry-after': '1' })
      return true
    }
    expect((await pull()).error).toBeUndefined()
  })

  it.each([
    ['a login page', '<html>please log in</html>'],
    ['a list of other things', '{"sha":"../../etc"}'],
  ])('refuses %s in place of the hub', async (_, text) => {
    hub.onAsk = (_, response) => {
      response.end(text)
      return true
    }
    expect((await pull()).error).toMatchObject({ code: 'HUB_INVALID' })
  })

  it('refuses names that are no models', async () => {
    expect((await pull('../x')).error).toMatchObject({ code: 'USAGE' })
    expect((await pull(repo, { env: { HF_ENDPOINT: 'hub.local' } })).error).toMatchObject({ code: 'CONFIG_INVALID' })
  })

  const missing = mountMissing()
  if (missing) console.warn(`skipped: pulls onto a full disk: ${missing}`)
  it.skipIf(missing !== undefined)('refuses a disk that is too small, and keeps its part where the disk fills up', async () => {
    using disk = smallDisk(66)
    expect((await pull(repo, { env: { HOME: disk.path } })).error).toBeUndefined()
    using small = smallDisk(60)
    const refused = (await pull(repo, { env: { HOME: small.path } })).error
    expect(refused).toMatchObject({ code: 'DISK_FULL', message: expect.stringMatching(/needs 0\.\d MB/) })
    expect(paths('cdn')).toHaveLength(1)
  })

  it.skipIf(missing !== undefined)('keeps its part where the disk fills up in mid-download', async () => {
    using disk = smallDisk(80)
    hub.files.set('model.safetensors', Buffer.concat([hub.files.get(weights)!, Buffer.alloc(4 << 20)]))
    hub.onDownload = (_, response, body) => {
      response.writeHead(200, { 'content-length': body.length })
      response.write(body.subarray(0, 100_000), () =>
        setTimeout(() => {
          disk.fill()
          response.end(body.subarray(100_000))
        }, 100),
      )
      return true
    }
    const { error } = await pull(repo, { env: { HOME: disk.path } })
    expect(error).toMatchObject({ code: 'DISK_FULL', message: expect.stringContaining('no space left') })
    disk.free()
    hub.onDownload = () => false
    expect((await pull(repo, { env: { HOME: disk.path } })).error).toBeUndefined()
    expect(hub.requests.at(-1)?.range).toMatch(/^bytes=\d{5,}-$/)
  })
})
