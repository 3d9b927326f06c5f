import { execFileSync } from 'node:child_process'
import {
  appendFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { readFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { BundleFolder } from '../../../agent/bundles/bundle-folder.ts'
import { fetchFile } from '../../../agent/bundles/fetch-file.ts'
import type { BrimError } from '../../../core/kit/base/errors.ts'
import type { Manifest } from '../../../core/model/bundle/manifest.ts'
import { modelIdOf } from '../../../core/model/bundle/model-id.ts'
import { newSigningKey, readSigner, type Signer, signatureFile } from '../../../core/wire/signing/signature.ts'
import { addSignature } from '../../../core/wire/signing/signature-file.ts'
import { onLoopback } from '../../../lab/cluster/loopback-server.ts'
import { type InstallSettings, installInto, jobContext, noPatience, patienceOf } from '../../support/install.ts'
import { sha256Of } from '../../support/sha256-of.ts'
import { fresh, shared } from '../../support/shared.ts'
import { tempDir } from '../../support/temp-dir.ts'
import { type TinyBundle, tinyBundle } from '../../support/tiny-bundle.ts'

const bundle = shared(tinyBundle)

/** A static server with ranges, whose responses a test can replace. */
let server: Awaited<ReturnType<typeof onLoopback>>
let base: string
let root: string
let requests: { path: string; range: string | undefined; authorization: string | undefined }[]
let respond: (request: IncomingMessage, response: ServerResponse, body: Buffer) => boolean
const dir = fresh(tempDir)
beforeEach(async () => {
  requests = []
  respond = () => false
  root = join(dir.path, 'served')
  cpSync(bundle.path, root, { recursive: true })
  const files = createServer((request, response) => {
    const path = request.url!.slice(1)
    const { range, authorization } = request.headers
    requests.push({ path, range, authorization })
    const file = join(root, path)
    const body = existsSync(file) ? readFileSync(file) : Buffer.alloc(0)
    if (respond(request, response, body)) return
    if (!existsSync(file)) return void response.writeHead(404).end()
    const from = Number(/^bytes=(\d+)-$/.exec(range ?? '')?.[1] ?? 0)
    const head = from > 0 ? { 'content-range': `bytes ${from}-${body.length - 1}/${body.length}` } : {}
    response.writeHead(from > 0 ? 206 : 200, head).end(body.subarray(from))
  })
  server = await onLoopback(files)
  base = `http://127.0.0.1:${server.port}`
})
afterEach(() => server[Symbol.asyncDispose]())

const servedHash = () => sha256Of(join(root, 'manifest.json'))
const state = () => join(dir.path, 'state')
const never = new AbortController().signal
function install(
  fields: { modelId?: string; manifestSha256?: string; url?: string; allowDowngrade?: true } = {},
  options: { inUse?: string[]; signal?: AbortSignal } & Omit<InstallSettings, 'inUse'> = {},
) {
  const { own, inUse = [], signal = never, ...others } = options
  const folder = new BundleFolder(state())
  const bundleSources = [base, 'http://127.0.0.1:1']
  const work = installInto(folder, { own, bundleSources, inUse: () => inUse, ...others })
  const progress: [number, number][] = []
  const job = jobContext({ progress: (done, total) => void progress.push([done, total]) })
  const { manifestSha256 = servedHash() } = fields
  const input = { modelId: bundle.manifest.modelId, url: base, ...fields, manifestSha256 }
  return { done: work(input, () => {}, signal, job), progress, folder }
}
const failed = (done: Promise<unknown>) =>
  done.then(
    () => expect.fail('it was installed'),
    (error: unknown) => error as BrimError,
  )
const partials = () => (existsSync(join(state(), 'bundles', '.partial')) ? readdirSync(join(state(), 'bundles', '.partial')) : [])
const weights = () => bundle.manifest.parts.input!.weights[0]!.file

/** Sends half of the weights, then resets the connection once the device has them. */
async function breakOff(response: ServerResponse, body: Buffer): Promise<void> {
  const half = Math.floor(body.length / 2)
  response.writeHead(200, { 'content-length': body.length })
  response.write(body.subarray(0, half))
  const at = (partial: string) => join(state(), 'bundles', '.partial', partial, weights())
  await expect.poll(() => partials().map((name) => statSync(at(name), { throwIfNoEntry: false })?.size)).toContain(half)
  response.destroy()
}

describe('bundle.install', () => {
  it('downloads and tests the parts of a device, and the start of the id finds the bundle', async () => {
    const { done, progress, folder } = install()
    const result = await done
    expect(result).toMatchObject({
      wasInstalled: false,
      name: 'tiny',
      probes: [{ part: 'input', passed: true }, { part: 'output' }],
    })
    const at = await folder.resolve(bundle.manifest.modelId.slice(0, 8))
    expect(await readFile(join(at, weights()))).toEqual(await readFile(join(bundle.path, weights())))
    expect(requests.filter(({ path }) => path.startsWith('middle'))).toEqual([])
    expect(progress.at(-1)).toEqual([result.bytes, result.bytes])
    expect(progress).toEqual([...progress].sort(([a], [b]) => a - b))
    expect(partials()).toEqual([])
  })

  it('succeeds at once if the bundle is intact, and repairs it if not', async () => {
    const { done, folder } = install()
    const { manifestSha256 } = (await done) as { manifestSha256: string }
    requests = []
    expect(await install({ manifestSha256 }).done).toMatchObject({ wasInstalled: true })
    expect(requests).toEqual([])
    appendFileSync(join(folder.folderOf(bundle.manifest.modelId), weights()), 'x')
    expect(await install({ manifestSha256 }).done).toMatchObject({ wasInstalled: false })
    expect(await install({ manifestSha256 }).done).toMatchObject({ wasInstalled: true })
  })

  it('continues after a broken connection, and downloads no byte twice', async () => {
    respond = (request, response, body) => {
      if (request.url !== `/${weights()}` || request.headers.range !== undefined) return false
      void breakOff(response, body)
      return true
    }
    const first = install()
    expect((await failed(first.done)).code).toBe('BUNDLE_UNAVAILABLE')
    const [before, total] = first.progress.at(-1)!
    requests = []
    const result = await install().done
    expect(result.fetchedBytes).toBe(total - before)
    expect(requests.find(({ path }) => path === weights())?.range).toMatch(/^bytes=[1-9]/)
  })

  it('goes on within its attempt although its connection breaks again and again', async () => {
    let breaks = 0
    respond = (request, response, body) => {
      const from = Number(/^bytes=(\d+)-$/.exec(request.headers.range ?? '')?.[1] ?? 0)
      if (request.url === '/manifest.json' || body.length - from < 2_000) return false
      breaks += 1
      // Every third time the server is not there at all.
      if (breaks % 3 === 0) response.destroy()
      else if (breaks % 7 === 0) response.writeHead(503).end()
      else {
        const head = from > 0 ? { 'content-range': `bytes ${from}-${body.length - 1}/${body.length}` } : {}
        response.writeHead(from > 0 ? 206 : 200, { ...head, 'content-length': body.length - from })
        response.write(body.subarray(from, from + Math.ceil(body.length / 5)), () => setTimeout(() => response.destroy(), 5))
      }
      return true
    }
    const patient = { patience: patienceOf(600_000) }
    const result = await install({}, patient).done
    expect(breaks).toBeGreaterThan(10)
    expect(result).toMatchObject({ wasInstalled: false, fetchedBytes: result.bytes })
  })

  it('requires a signature by a trusted key where one is configured, also of what is installed', async () => {
    const [own, other] = ['own', 'other'].map((name) => {
      const path = join(dir.path, `${name}.key`)
      writeFileSync(path, newSigningKey(), { mode: 0o600 })
      return readSigner(path)
    })
    const trusting = { trustedKeys: [own!.publicKey] }
    expect(await failed(install({}, trusting).done)).toMatchObject({
      code: 'SIGNATURE_INVALID',
      message: expect.stringContaining('not signed'),
    })
    const sign = ({ sign }: Signer, hash = servedHash()) => addSignature(join(root, signatureFile), sign('bundle', hash))
    await sign(other!)
    expect((await failed(install({}, trusting).done)).message).toContain('does not trust')
    await sign(own!, '0'.repeat(64))
    expect((await failed(install({}, trusting).done)).message).toContain('does not fit')
    expect(requests.some(({ path }) => path === weights())).toBe(false)
    expect(partials()).toEqual([])
    expect(await install().done).toMatchObject({ wasInstalled: false, signedBy: null })
    await failed(install({}, trusting).done)
    await sign(own!)
    const signed = { wasInstalled: true, signedBy: own!.publicKey }
    expect(await install({}, trusting).done).toMatchObject(signed)
    requests = []
    expect(await install({}, trusting).done).toMatchObject(signed)
    expect(requests).toEqual([])
  })

  it('does not go back to a lower number of a bundle without the word of an admin', async () => {
    const path = join(dir.path, 'own.key')
    writeFileSync(path, newSigningKey(), { mode: 0o600 })
    const { publicKey, sign } = readSigner(path)
    const trusting = { trustedKeys: [publicKey] }
    /** Another version of the same name. */
    const version = async (sequence: number | undefined) => {
      appendFileSync(join(root, 'manifest.json'), ' ')
      await addSignature(join(root, signatureFile), sign('bundle', servedHash(), sequence))
    }
    for (const sequence of [undefined, 3, 7]) {
      await version(sequence)
      expect(await install({}, trusting).done).toMatchObject({ signedBy: publicKey })
    }
    for (const [sequence, why] of [
      [6, 'bundle tiny: the version has the number 6, but this device has had 7'],
      [undefined, 'has no number'],
    ] as const) {
      await version(sequence)
      requests = []
      const error = await failed(install({}, trusting).done)
      expect(error).toMatchObject({ code: 'DOWNGRADE_REFUSED', message: expect.stringContaining(why) })
      expect(requests.some(({ path }) => path === weights())).toBe(false)
      expect(partials()).toEqual([])
    }
    await version(5)
    expect(await install({ allowDowngrade: true }, trusting).done).toMatchObject({ signedBy: publicKey })
    await version(6)
    expect(await install({}, trusting).done).toMatchObject({ signedBy: publicKey })
  })

  it('fails if the disk is full', async ({ skip }) => {
    const disk = join(dir.path, 'disk')
    mkdirSync(disk)
    try {
      execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=8k', 'brim-test', disk], { stdio: 'ignore' })
    } catch {
      return skip('a small file system can be mounted by root only')
    }
    try {
      const { sha256, bytes } = bundle.manifest.files.find(({ path }) => path === weights())!
      const wanted = { url: new URL(`${base}/${weights()}`), to: join(disk, 'weights'), bytes, sha256 }
      const options = { own: undefined, sources: [base], stallMs: 1_000, patience: noPatience(), signal: never }
      expect(await failed(fetchFile(wanted, options, () => {}))).toMatchObject({ code: 'DISK_FULL' })
    } finally {
      execFileSync('umount', [disk])
    }
  })

  it('keeps the download after a captive portal, or when memory is too short for the test', async () => {
    respond = (request, response, body) => {
      if (request.url !== `/${weights()}`) return false
      void breakOff(response, body)
      return true
    }
    await failed(install().done)
    respond = (request, response) => {
      if (request.url !== `/${weights()}`) return false
      response.end('please log in')
      return true
    }
    expect((await failed(install().done)).code).toBe('BUNDLE_UNAVAILABLE')
    respond = () => false
    requests = []
    const library = join(dir.path, 'none.so')
    await failed(install({}, { library }).done)
    expect(requests.find(({ path }) => path === weights())?.range).toMatch(/^bytes=\d{3,}-$/)
    expect(await install().done).toMatchObject({ wasInstalled: false, fetchedBytes: 0 })
  })

  it('downloads a file again if the part on disk is wrong, or the server ignores ranges', async () => {
    respond = (request, response, body) => {
      if (request.url !== `/${weights()}` || request.headers.range !== undefined) return false
      response.writeHead(200, { 'content-length': body.length })
      response.write(body.subarray(0, 10), () => response.destroy())
      return true
    }
    await failed(install().done)
    const [partial] = partials()
    writeFileSync(join(state(), 'bundles', '.partial', partial!, weights()), 'wrong')
    respond = () => false
    expect(await install().done).toMatchObject({ wasInstalled: false })
  })

  it.each([
    ['the weights differ', () => damageWeights(true), 'BUNDLE_CORRUPT', /part input .*sha256 is wrong/],
    ['a file is longer than announced', () => damageWeights(false), 'BUNDLE_CORRUPT', /has more than the announced \d+ bytes/],
    ['a file is missing', () => (respond = missingWeights), 'BUNDLE_INVALID', /status 404/],
  ])('fails and leaves no files if %s', async (_, harm, code, words) => {
    harm()
    const error = await failed(install().done)
    expect(error.code).toBe(code)
    expect(error.message).toMatch(words)
    expect(partials()).toEqual([])
    expect(await new BundleFolder(state()).list()).toEqual([])
  })

  /** Changes the last byte of the served weights, or appends one. */
  const damageWeights = (replace: boolean) => {
    const path = join(root, weights())
    const bytes = readFileSync(path)
    if (replace) bytes[bytes.length - 1]! ^= 1
    writeFileSync(path, replace ? bytes : Buffer.concat([bytes, Buffer.from('x')]))
  }
  const missingWeights = (request: IncomingMessage, response: ServerResponse) => {
    if (request.url !== `/${weights()}`) return false
    response.writeHead(404).end()
    return true
  }

  it('refuses a URL with another model, or another version of it', async () => {
    const other = '0'.repeat(64)
    expect(await failed(install({ modelId: other }).done)).toMatchObject({
      code: 'BUNDLE_INVALID',
      message: expect.stringContaining(`not ${other.slice(0, 12)}`),
    })
    expect(await failed(install({ manifestSha256: other }).done)).toMatchObject({ code: 'BUNDLE_INVALID' })
    expect(partials()).toEqual([])
  })

  it('writes nothing outside its folder, whatever the manifest contains', async () => {
    const manifest = JSON.parse(readFileSync(join(root, 'manifest.json'), 'utf8')) as { files: { path: string }[] }
    manifest.files[0]!.path = '../../outside'
    writeFileSync(join(root, 'manifest.json'), JSON.stringify(manifest))
    expect((await failed(install().done)).code).toBe('BUNDLE_INVALID')
    expect(requests.map(({ path }) => path)).toEqual(['manifest.json'])
  })

  it('may be retried if the server is unreachable, and follows redirects to http and https only', async () => {
    respond = (_, response) => {
      response.writeHead(503).end()
      return true
    }
    expect((await failed(install().done)).code).toBe('BUNDLE_UNAVAILABLE')
    expect((await failed(install({ url: 'http://127.0.0.1:1' }).done)).code).toBe('BUNDLE_UNAVAILABLE')
    respond = (_, response) => {
      response.writeHead(302, { location: 'file:///etc/hostname' }).end()
      return true
    }
    expect((await failed(install().done)).code).toBe('BUNDLE_INVALID')
    respond = (request, response) => {
      if (request.url!.startsWith('/moved/')) return false
      response.writeHead(307, { location: `/moved${request.url}` }).end()
      return true
    }
    const manifestSha256 = servedHash()
    root = join(root, '..')
    cpSync(bundle.path, join(root, 'moved'), { recursive: true })
    expect(await install({ manifestSha256 }).done).toMatchObject({ wasInstalled: false })
  })

  it('gives up a silent server, before or during its response, and keeps the download', async () => {
    const { sha256, bytes } = bundle.manifest.files.find(({ path }) => path === weights())!
    const wanted = { url: new URL(`${base}/${weights()}`), to: join(dir.path, 'weights'), bytes, sha256 }
    const fetched = () =>
      failed(
        fetchFile(wanted, { own: undefined, sources: [base], stallMs: 100, patience: noPatience(), signal: never }, () => {}),
      )
    respond = () => true
    const why = 'no data for 0.1 s'
    const silent = { code: 'BUNDLE_UNAVAILABLE', message: expect.stringContaining(why), cause: { message: why } }
    expect(await fetched()).toMatchObject(silent)
    respond = (_, response, body) => {
      response.writeHead(200, { 'content-length': body.length })
      response.write(body.subarray(0, 10))
      return true
    }
    expect(await fetched()).toMatchObject({ code: 'BUNDLE_UNAVAILABLE' })
    expect(readFileSync(wanted.to)).toEqual(readFileSync(join(bundle.path, weights())).subarray(0, 10))
  })

  it('sends its token to its own bridge only', async () => {
    const credentials = { token: async () => 'secret', dial: async () => undefined }
    await install({}, { own: { origin: 'http://127.0.0.1:1', credentials } }).done
    expect(new Set(requests.map(({ authorization }) => authorization))).toEqual(new Set([undefined]))
    requests = []
    rmSync(state(), { recursive: true })
    await install({}, { own: { origin: base, credentials } }).done
    expect(new Set(requests.map(({ authorization }) => authorization))).toEqual(new Set(['Bearer secret']))
  })

  it('stops when it is canceled', async () => {
    const stop = new AbortController()
    respond = (request, response) => {
      if (request.url === '/manifest.json') return false
      response.writeHead(200)
      response.write('x', () => stop.abort(new Error('canceled')))
      return true
    }
    expect((await failed(install({}, { signal: stop.signal }).done)).message).toMatch(/canceled|abort/)
  })

  it('keeps a partial download for a week after its last progress, across restarts', async () => {
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
    // A download that began while the device's clock was not set.
    utimesSync(at, 60, 60)
    await folder.removeUnused([], Date.now())
    expect(existsSync(at)).toBe(true)
    utimesSync(at, days(8), days(8))
    await folder.removeUnused([], Date.now())
    expect(existsSync(at)).toBe(false)
  })

  it('deletes other partial downloads if space is short', async () => {
    const before = await new BundleFolder(state()).partial({ modelId: '1'.repeat(64), manifestSha256: '0'.repeat(64) })
    const path = join(root, 'manifest.json')
    const manifest = JSON.parse(readFileSync(path, 'utf8')) as Manifest
    const { files, parts, ...rest } = manifest
    // Eight matrices of a terabyte each, with the dimensions of the largest possible model.
    const dims = { ...manifest.dims, vocab: 2 ** 22, hidden: 2 ** 16 }
    const bytes = 2 ** 40
    const matrix = { type: 'float32' as const, dims: [dims.vocab, dims.hidden], file: 'huge', bytes }
    const weights = Array.from({ length: 8 }, (_, at) => ({ ...matrix, name: `w${at}`, offset: at * bytes }))
    const huge = {
      ...rest,
      dims,
      parts: { ...parts, output: { ...parts.output!, weights } },
      files: [...files, { path: 'huge', bytes: 8 * bytes, sha256: '0'.repeat(64) }],
    }
    const modelId = modelIdOf(huge)
    writeFileSync(path, JSON.stringify({ ...huge, modelId }))
    expect(await failed(install({ modelId }).done)).toMatchObject({ code: 'DISK_FULL' })
    expect(existsSync(before)).toBe(false)
  })

  it('keeps the bundles in use, the new one and four others', async () => {
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
