import { once } from 'node:events'
import {
  appendFileSync,
  cpSync,
  existsSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { readFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { BundleFolder } from '../../../agent/bundles/bundle-folder.ts'
import { fetchFile } from '../../../agent/bundles/fetch-file.ts'
import type { OwnBridge } from '../../../agent/bundles/get.ts'
import { bundleInstall } from '../../../agent/jobs/install.ts'
import { systemClock } from '../../../core/base/clock.ts'
import type { BrimError } from '../../../core/base/errors.ts'
import { type TempDir, tempDir } from '../../support/temp-dir.ts'
import { type TinyBundle, tinyBundle } from '../../support/tiny-bundle.ts'

let bundle: TinyBundle
beforeAll(async () => {
  bundle = await tinyBundle()
})
afterAll(() => bundle[Symbol.dispose]())

/** A static server that supports ranges, and does to a request whatever a test wants. */
let server: Server
let base: string
let root: string
let asked: { path: string; range: string | undefined; authorization: string | undefined }[]
let strange: (request: IncomingMessage, response: ServerResponse, body: Buffer) => boolean
let dir: TempDir
beforeEach(async () => {
  dir = tempDir()
  asked = []
  strange = () => false
  root = join(dir.path, 'served')
  cpSync(bundle.path, root, { recursive: true })
  server = createServer((request, response) => {
    const path = request.url!.slice(1)
    const { range, authorization } = request.headers
    asked.push({ path, range, authorization })
    const file = join(root, path)
    const body = existsSync(file) ? readFileSync(file) : Buffer.alloc(0)
    if (strange(request, response, body)) return
    if (!existsSync(file)) return void response.writeHead(404).end()
    const from = Number(/^bytes=(\d+)-$/.exec(range ?? '')?.[1] ?? 0)
    const head = from > 0 ? { 'content-range': `bytes ${from}-${body.length - 1}/${body.length}` } : {}
    response.writeHead(from > 0 ? 206 : 200, head).end(body.subarray(from))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})
afterEach(() => {
  server.closeAllConnections()
  server.close()
  dir[Symbol.dispose]()
})

const state = () => join(dir.path, 'state')
const never = new AbortController().signal
function install(fields: object = {}, options: { own?: OwnBridge; inUse?: string[]; signal?: AbortSignal } = {}) {
  const { own, inUse = [], signal = never } = options
  const folder = new BundleFolder(state())
  const work = bundleInstall({ folder, bridgeOf: () => own, inUse, threads: 1, clock: systemClock })
  const progress: [number, number][] = []
  const job = { link: 'mqtt://a', progress: (done: number, total: number) => void progress.push([done, total]) }
  const input = { modelId: bundle.manifest.modelId, url: base, ...fields }
  return { done: work(input, () => {}, signal, job), progress, folder }
}
const failed = (done: Promise<unknown>) =>
  done.then(
    () => expect.fail('it was installed'),
    (error: unknown) => error as BrimError,
  )
const left = () => (existsSync(join(state(), 'bundles', '.partial')) ? readdirSync(join(state(), 'bundles', '.partial')) : [])
const weights = () => bundle.manifest.parts.input!.weights[0]!.file

/** Half of the weights and no more, once the device has that: what is on its way when a connection is reset is lost. */
async function breakOff(response: ServerResponse, body: Buffer): Promise<void> {
  const half = Math.floor(body.length / 2)
  response.writeHead(200, { 'content-length': body.length })
  response.write(body.subarray(0, half))
  const at = (partial: string) => join(state(), 'bundles', '.partial', partial, weights())
  await expect.poll(() => left().map((name) => statSync(at(name), { throwIfNoEntry: false })?.size)).toContain(half)
  response.destroy()
}

describe('installing a bundle', () => {
  it('fetches what runs on a device, tries it out, and is found by the beginning of its id', async () => {
    const { done, progress, folder } = install()
    const result = await done
    expect(result).toMatchObject({
      wasInstalled: false,
      name: 'tiny',
      probes: [{ part: 'input', passed: true }, { part: 'output' }],
    })
    const at = await folder.resolve(bundle.manifest.modelId.slice(0, 8))
    expect(await readFile(join(at, weights()))).toEqual(await readFile(join(bundle.path, weights())))
    expect(asked.filter(({ path }) => path.startsWith('middle'))).toEqual([])
    expect(progress.at(-1)).toEqual([result.bytes, result.bytes])
    expect(progress).toEqual([...progress].sort(([a], [b]) => a - b))
    expect(left()).toEqual([])
  })

  it('is done at once where it is installed and intact, and repairs it where it is not', async () => {
    const { done, folder } = install()
    const { manifestSha256 } = (await done) as { manifestSha256: string }
    asked = []
    expect(await install({ manifestSha256 }).done).toMatchObject({ wasInstalled: true })
    expect(asked).toEqual([])
    expect(await install().done).toMatchObject({ wasInstalled: true })
    expect(asked.map(({ path }) => path)).toEqual(['manifest.json'])
    appendFileSync(join(folder.folderOf(bundle.manifest.modelId), weights()), 'x')
    expect(await install({ manifestSha256 }).done).toMatchObject({ wasInstalled: false })
    expect(await install({ manifestSha256 }).done).toMatchObject({ wasInstalled: true })
  })

  it('goes on where a connection broke, and fetches no byte twice', async () => {
    strange = (request, response, body) => {
      if (request.url !== `/${weights()}` || request.headers.range !== undefined) return false
      void breakOff(response, body)
      return true
    }
    const first = install()
    expect((await failed(first.done)).code).toBe('BUNDLE_UNAVAILABLE')
    const [, most] = first.progress.at(-1)!
    const before = first.progress.at(-1)![0]
    asked = []
    const result = await install().done
    expect(result.fetchedBytes).toBe(most - before)
    expect(asked.find(({ path }) => path === weights())?.range).toMatch(/^bytes=[1-9]/)
  })

  it('keeps what came where a network has a page of its own in between, or there was no memory to try it out', async () => {
    strange = (request, response, body) => {
      if (request.url !== `/${weights()}`) return false
      void breakOff(response, body)
      return true
    }
    await failed(install().done)
    strange = (request, response) => {
      if (request.url !== `/${weights()}`) return false
      response.end('please log in')
      return true
    }
    expect((await failed(install().done)).code).toBe('BUNDLE_UNAVAILABLE')
    strange = () => false
    asked = []
    const library = join(dir.path, 'none.so')
    const work = bundleInstall({
      folder: new BundleFolder(state()),
      bridgeOf: () => undefined,
      inUse: [],
      threads: 1,
      library,
      clock: systemClock,
    })
    const job = { link: 'mqtt://a', progress: () => {} }
    await failed(work({ modelId: bundle.manifest.modelId, url: base }, () => {}, never, job))
    expect(asked.find(({ path }) => path === weights())?.range).toMatch(/^bytes=\d{3,}-$/)
    expect(await install().done).toMatchObject({ wasInstalled: false, fetchedBytes: 0 })
  })

  it('starts a file over where what was there is wrong, or its server knows no ranges', async () => {
    strange = (request, response, body) => {
      if (request.url !== `/${weights()}` || request.headers.range !== undefined) return false
      response.writeHead(200, { 'content-length': body.length })
      response.write(body.subarray(0, 10), () => response.destroy())
      return true
    }
    await failed(install().done)
    const [partial] = left()
    writeFileSync(join(state(), 'bundles', '.partial', partial!, weights()), 'wrong')
    strange = () => false
    expect(await install().done).toMatchObject({ wasInstalled: false })
  })

  it.each([
    ['its weights are others', () => appendByte(root, true), 'BUNDLE_CORRUPT', /part input .*sha256 differs/],
    ['a file is longer than announced', () => appendByte(root, false), 'BUNDLE_CORRUPT', /has more than the \d+ bytes/],
    ['a file is missing', () => (strange = notThere), 'BUNDLE_INVALID', /answers 404/],
  ])('is refused, and leaves nothing behind, where %s', async (_, harm, code, words) => {
    harm()
    const error = await failed(install().done)
    expect(error.code).toBe(code)
    expect(error.message).toMatch(words)
    expect(left()).toEqual([])
    expect(await new BundleFolder(state()).list()).toEqual([])
  })

  const appendByte = (folder: string, replace: boolean) => {
    const path = join(folder, weights())
    const bytes = readFileSync(path)
    if (replace) bytes[bytes.length - 1]! ^= 1
    writeFileSync(path, replace ? bytes : Buffer.concat([bytes, Buffer.from('x')]))
  }
  const notThere = (request: IncomingMessage, response: ServerResponse) => {
    if (request.url !== `/${weights()}`) return false
    response.writeHead(404).end()
    return true
  }

  it('is refused where another model, or another version of it, stands at that address', async () => {
    const other = '0'.repeat(64)
    expect(await failed(install({ modelId: other }).done)).toMatchObject({
      code: 'BUNDLE_INVALID',
      message: expect.stringContaining(`not ${other.slice(0, 12)}`),
    })
    expect(await failed(install({ manifestSha256: other }).done)).toMatchObject({ code: 'BUNDLE_INVALID' })
    expect(left()).toEqual([])
  })

  it('takes nothing from outside its folder, whatever the manifest says', async () => {
    const manifest = JSON.parse(readFileSync(join(root, 'manifest.json'), 'utf8')) as { files: { path: string }[] }
    manifest.files[0]!.path = '../../outside'
    writeFileSync(join(root, 'manifest.json'), JSON.stringify(manifest))
    expect((await failed(install().done)).code).toBe('BUNDLE_INVALID')
    expect(asked.map(({ path }) => path)).toEqual(['manifest.json'])
  })

  it('waits for a server that does not answer, and goes nowhere but to http(s)', async () => {
    strange = (_, response) => {
      response.writeHead(503).end()
      return true
    }
    expect((await failed(install().done)).code).toBe('BUNDLE_UNAVAILABLE')
    expect((await failed(install({ url: 'http://127.0.0.1:1' }).done)).code).toBe('BUNDLE_UNAVAILABLE')
    strange = (_, response) => {
      response.writeHead(302, { location: 'file:///etc/hostname' }).end()
      return true
    }
    expect((await failed(install().done)).code).toBe('BUNDLE_INVALID')
    strange = (request, response) => {
      if (request.url!.startsWith('/moved/')) return false
      response.writeHead(307, { location: `/moved${request.url}` }).end()
      return true
    }
    root = join(root, '..')
    cpSync(bundle.path, join(root, 'moved'), { recursive: true })
    expect(await install().done).toMatchObject({ wasInstalled: false })
  })

  it('gives up a server that falls silent, before its answer or in it, and keeps what came', async () => {
    const { sha256, bytes } = bundle.manifest.files.find(({ path }) => path === weights())!
    const wanted = { url: new URL(`${base}/${weights()}`), to: join(dir.path, 'weights'), bytes, sha256 }
    const fetched = () => failed(fetchFile(wanted, { own: undefined, stallMs: 100, signal: never }, () => {}))
    strange = () => true
    const why = 'nothing came for 0.1 s'
    const silent = { code: 'BUNDLE_UNAVAILABLE', message: expect.stringContaining(why), cause: { message: why } }
    expect(await fetched()).toMatchObject(silent)
    strange = (_, response, body) => {
      response.writeHead(200, { 'content-length': body.length })
      response.write(body.subarray(0, 10))
      return true
    }
    expect(await fetched()).toMatchObject({ code: 'BUNDLE_UNAVAILABLE' })
    expect(readFileSync(wanted.to)).toEqual(readFileSync(join(bundle.path, weights())).subarray(0, 10))
  })

  it('shows its token to its own bridge alone', async () => {
    const credentials = { token: async () => 'secret', dial: async () => undefined }
    await install({}, { own: { origin: 'http://127.0.0.1:1', credentials } }).done
    expect(new Set(asked.map(({ authorization }) => authorization))).toEqual(new Set([undefined]))
    asked = []
    await install({}, { own: { origin: base, credentials } }).done
    expect(new Set(asked.map(({ authorization }) => authorization))).toEqual(new Set(['Bearer secret']))
  })

  it('ends when it is canceled', async () => {
    const stop = new AbortController()
    strange = (request, response) => {
      if (request.url === '/manifest.json') return false
      response.writeHead(200)
      response.write('x', () => stop.abort(new Error('canceled')))
      return true
    }
    expect((await failed(install({}, { signal: stop.signal }).done)).message).toMatch(/canceled|abort/)
  })

  it('keeps what it has begun for a week after it was last gone on with, however often the device starts', async () => {
    const folder = new BundleFolder(state())
    const version = { modelId: bundle.manifest.modelId, manifestSha256: '0'.repeat(64) }
    const at = await folder.partial(version)
    const days = (n: number) => new Date(Date.now() - n * 86_400_000)
    utimesSync(at, days(6), days(6))
    await folder.removeUnused([], Date.now())
    expect(existsSync(at)).toBe(true)
    utimesSync(at, days(8), days(8))
    await folder.partial(version)
    await folder.removeUnused([], Date.now())
    expect(existsSync(at)).toBe(true)
    // Begun while the clock stood in 1970.
    utimesSync(at, 60, 60)
    await folder.removeUnused([], Date.now())
    expect(existsSync(at)).toBe(true)
    utimesSync(at, days(8), days(8))
    await folder.removeUnused([], Date.now())
    expect(existsSync(at)).toBe(false)
  })

  it('gives up what was begun before where there is no room beside it', async () => {
    const before = await new BundleFolder(state()).partial({ modelId: '1'.repeat(64), manifestSha256: '0'.repeat(64) })
    const path = join(root, 'manifest.json')
    const manifest = JSON.parse(readFileSync(path, 'utf8')) as { files: object[] }
    manifest.files.push({ path: 'huge', bytes: 2 ** 52, sha256: '0'.repeat(64) })
    writeFileSync(path, JSON.stringify(manifest))
    expect(await failed(install().done)).toMatchObject({ code: 'DISK_FULL' })
    expect(existsSync(before)).toBe(false)
  })

  it('still has the version before where the power went while another took its place', async () => {
    const { done, folder } = install()
    await done
    const at = folder.folderOf(bundle.manifest.modelId)
    renameSync(at, join(state(), 'bundles', '.partial', `${bundle.manifest.modelId}-before`))
    expect(await folder.list()).toEqual([])
    await new BundleFolder(state()).recover()
    expect(await folder.resolve(bundle.manifest.modelId.slice(0, 8))).toBe(at)
    expect(left()).toEqual([])
  })

  it('keeps what is in use and the new one, and four more', async () => {
    const folder = new BundleFolder(state())
    const models: TinyBundle[] = []
    for (let seed = 2; seed <= 8; seed++) models.push(await tinyBundle({ seed }))
    try {
      const [first] = models
      let removed: unknown
      for (const { path, manifest } of models) {
        root = path
        const result = await install({ modelId: manifest.modelId }, { inUse: [folder.folderOf(first!.manifest.modelId)] }).done
        removed = result.removed
      }
      const ids = models.map(({ manifest }) => manifest.modelId)
      expect(removed).toEqual([ids[1]])
      expect((await folder.list()).map(({ modelId }) => modelId)).toEqual([...ids.slice(2).reverse(), ids[0]])
    } finally {
      for (const model of models) model[Symbol.dispose]()
    }
  })
})
