import { cpSync, existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { bundleRoutes, releaseRoutes } from '../../../cloud-bridge/api/bundles.ts'
import { openBundleStore } from '../../../cloud-bridge/bundles/bundle-store.ts'
import type { BrimError } from '../../../core/kit/base/errors.ts'
import { brim } from '../../support/brim.ts'
import { captureIo } from '../../support/captured-io.ts'
import { startTestHttp, type TestHttp } from '../../support/http.ts'
import { sha256Of } from '../../support/sha256-of.ts'
import { fresh, shared } from '../../support/shared.ts'
import { tempDir } from '../../support/temp-dir.ts'
import { tinyBundle } from '../../support/tiny-bundle.ts'

const tiny = shared(tinyBundle)

const dir = fresh(tempDir)
let http: TestHttp
let bundle: string
let key: string
let publicKey: string
const served = () => join(dir.path, 'served')
const start = async (own?: string) => {
  const store = openBundleStore({ own: own === undefined ? [] : [own], folder: served(), uploadBytes: 2 ** 30, wallMs: Date.now })
  http = await startTestHttp([bundleRoutes(store), releaseRoutes(store)])
}
beforeEach(async () => {
  bundle = join(dir.path, 'bundle')
  cpSync(tiny.path, bundle, { recursive: true })
  key = join(dir.path, 'release.key')
  publicKey = (await run<{ publicKey: string }>('keygen', key)).publicKey
  await start()
})
afterEach(() => http.close())

async function run<T>(...words: string[]): Promise<T> {
  const { io, out } = captureIo({ env: { HOME: dir.path, XDG_CONFIG_HOME: dir.path } })
  const url = ['push', 'list'].includes(words[0]!) ? ['--bridge-url', http.url] : []
  await brim(['bundle', ...words, ...url, '--json'], io)
  return JSON.parse(out()) as T
}
const refused = (...words: string[]) =>
  run(...words).then(
    () => expect.fail('it was accepted'),
    (error: unknown) => error as BrimError,
  )
interface Listed {
  bundles: { modelId: string; manifestSha256: string; signedBy: string[] }[]
  releases: { sha256: string; version: string; platform: string; signedBy: string[] }[]
}
const totalBytes = () => tiny.manifest.files.reduce((sum, { bytes }) => sum + bytes, 0)

describe('brim bundle', () => {
  it('signs and pushes a bundle, which devices then find with its signature; pushing it again sends nothing', async () => {
    await run('sign', bundle, '--key', key)
    const { modelId } = tiny.manifest
    expect(await run('push', bundle)).toMatchObject({ modelId, uploadedBytes: totalBytes() })
    expect(await run('push', bundle)).toMatchObject({ uploadedBytes: 0 })
    const manifestSha256 = sha256Of(join(bundle, 'manifest.json'))
    expect((await run<Listed>('list')).bundles).toMatchObject([{ modelId, manifestSha256, signedBy: [publicKey] }])
    for (const file of ['manifest.sig.json', 'manifest.json', tiny.manifest.files[0]!.path])
      expect(Buffer.from(await (await http.get(`/v1/bundles/${modelId}/${file}`)).arrayBuffer())).toEqual(
        readFileSync(join(bundle, file)),
      )
    // Only the published folder is left, also for a bridge that starts again.
    expect(readdirSync(served()).sort()).toEqual(['.incoming', '.uploads', `${modelId}-${manifestSha256.slice(0, 16)}`])
    expect([readdirSync(join(served(), '.incoming')), readdirSync(join(served(), '.uploads'))]).toEqual([[], []])
    await http.close()
    await start()
    // A second key is added to the published bundle.
    const second = join(dir.path, 'second.key')
    await run('keygen', second)
    await run('sign', bundle, '--key', second)
    expect(await run('push', bundle)).toMatchObject({ uploadedBytes: 0 })
    expect((await run<Listed>('list')).bundles[0]?.signedBy).toHaveLength(2)
  })

  it('signs a copy of the bundle that the bridge itself serves, which a service may only read', async () => {
    await http.close()
    const own = join(dir.path, 'own')
    cpSync(bundle, own, { recursive: true })
    await start(own)
    await run('sign', bundle, '--key', key)
    expect(await run('push', bundle)).toMatchObject({ uploadedBytes: 0 })
    expect((await run<Listed>('list')).bundles).toMatchObject([{ modelId: tiny.manifest.modelId, signedBy: [publicKey] }])
    expect(existsSync(join(own, 'manifest.sig.json'))).toBe(false)
  })

  it('replaces the version before, of which only the changed files are sent', async () => {
    await run('push', bundle)
    const text = readFileSync(join(bundle, 'manifest.json'), 'utf8')
    writeFileSync(join(bundle, 'manifest.json'), text.replace(/"name": ?"[^"]*"/, '"name": "renamed"'))
    expect(await run('push', bundle)).toMatchObject({ uploadedBytes: 0 })
    expect((await run<{ bundles: object[] }>('list')).bundles).toMatchObject([{ name: 'renamed' }])
    expect(readdirSync(served()).filter((name) => !name.startsWith('.'))).toHaveLength(1)
  })

  it('goes on after a broken upload', async () => {
    const largest = [...tiny.manifest.files].sort((a, b) => b.bytes - a.bytes)[0]!
    const body = readFileSync(join(bundle, largest.path))
    const half = Math.floor(body.length / 2)
    const socket = connect(http.port, '127.0.0.1')
    const head = `POST /v1/uploads/${largest.sha256}?from=0 HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/octet-stream\r\n`
    socket.write(`${head}content-length: ${body.length}\r\n\r\n`)
    socket.write(body.subarray(0, half))
    const upload = join(served(), '.uploads', largest.sha256)
    await expect.poll(() => existsSync(upload) && readFileSync(upload).length).toBe(half)
    socket.destroy()
    expect(await run('push', bundle)).toMatchObject({ uploadedBytes: totalBytes() - half })
  })

  it('refuses what is broken, before it is published', async () => {
    const [file] = tiny.manifest.files
    const bytes = readFileSync(join(bundle, file!.path))
    writeFileSync(join(bundle, file!.path), Buffer.concat([bytes.subarray(1), Buffer.from([1])]))
    expect((await refused('push', bundle)).code).toBe('BUNDLE_CORRUPT')
    // The same by a client that does not look itself.
    const upload = (sha256: string, piece: Uint8Array) =>
      fetch(`${http.url}/v1/uploads/${sha256}?from=0`, {
        method: 'POST',
        headers: { 'content-type': 'application/octet-stream' },
        body: piece as Uint8Array<ArrayBuffer>,
      })
    for (const { path, sha256 } of tiny.manifest.files) await upload(sha256, readFileSync(join(bundle, path)))
    const manifest = readFileSync(join(bundle, 'manifest.json'), 'utf8')
    const response = await http.post('/v1/bundles', { manifest })
    expect([response.status, await response.json()]).toMatchObject([400, { error: { code: 'BUNDLE_CORRUPT' } }])
    expect((await http.post('/v1/bundles', { manifest: '{}' })).status).toBe(400)
    expect((await upload('..%2f..%2fx', Buffer.from('x'))).status).toBe(400)
    expect((await run<Listed>('list')).bundles).toEqual([])
    await run('sign', bundle, '--key', key)
    writeFileSync(join(bundle, 'manifest.json'), manifest.replace(/"name": ?"[^"]*"/, '"name": "renamed"'))
    expect((await refused('push', bundle)).code).toBe('SIGNATURE_INVALID')
  })

  it('signs and pushes the archive of a release, and refuses an unsigned one', async () => {
    const archive = join(dir.path, 'brim-0.4.0-rc.1-linux-arm64.tar.gz')
    writeFileSync(archive, 'an archive')
    expect((await refused('push', archive)).message).toContain('is not signed')
    await run('sign', archive, '--key', key)
    expect(await run('push', archive)).toMatchObject({ version: '0.4.0-rc.1', platform: 'linux-arm64', uploadedBytes: 10 })
    expect(await run('push', archive)).toMatchObject({ uploadedBytes: 0 })
    const sha256 = sha256Of(archive)
    expect((await run<Listed>('list')).releases).toMatchObject([{ sha256, version: '0.4.0-rc.1', signedBy: [publicKey] }])
    const rest = await http.get(`/v1/releases/${sha256}`, { range: 'bytes=3-' })
    expect([rest.status, await rest.text()]).toEqual([206, 'archive'])
    expect(await (await http.get(`/v1/releases/${sha256}/signature`)).json()).toMatchObject({ signatures: [{ publicKey }] })
    expect((await http.get(`/v1/releases/${'0'.repeat(64)}`)).status).toBe(404)
    // A client that uploads something else under its hash.
    const broken = join(dir.path, 'brim-0.4.0-linux-x64.tar.gz')
    writeFileSync(broken, 'an archive!')
    await run('sign', broken, '--key', key)
    const body = { sha256: sha256Of(broken), bytes: 11, version: '0.4.0', platform: 'linux-x64' }
    await fetch(`${http.url}/v1/uploads/${body.sha256}?from=0`, {
      method: 'POST',
      headers: { 'content-type': 'application/octet-stream' },
      body: 'an archive?',
    })
    const signed = { ...body, signatures: JSON.parse(readFileSync(`${broken}.sig.json`, 'utf8')) as object }
    const refusal = await http.post('/v1/releases', signed)
    expect([refusal.status, await refusal.json()]).toMatchObject([400, { error: { code: 'BUNDLE_CORRUPT' } }])
    // Published again with other facts, it keeps those of its first time; a damaged one hides no other.
    const signatures = JSON.parse(readFileSync(`${archive}.sig.json`, 'utf8')) as object
    const other = { sha256, bytes: 11, version: '0.5.0', platform: 'linux-x64', signatures }
    expect((await http.post('/v1/releases', other)).status).toBe(200)
    const damaged = join(served(), '.releases', '1'.repeat(64))
    cpSync(join(served(), '.releases', sha256), damaged, { recursive: true })
    writeFileSync(join(damaged, 'release.json'), '{')
    const listed = (await run<{ releases: object[] }>('list')).releases
    expect(listed).toMatchObject([{ sha256, bytes: 10, version: '0.4.0-rc.1', platform: 'linux-arm64' }])
  })
})
