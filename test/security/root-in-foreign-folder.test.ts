import {
  chmodSync,
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { backUp } from '../../cloud-bridge/backup/backup.ts'
import { restore } from '../../cloud-bridge/backup/restore.ts'
import { bridgeDatabases, bridgeTables } from '../../cloud-bridge/databases.ts'
import { recordStart } from '../../cloud-bridge/identity/bridge-identity.ts'
import { openIdentityStore } from '../../cloud-bridge/identity/store.ts'
import { systemClock } from '../../core/kit/base/clock.ts'
import { asOwner } from '../../core/kit/store/as-owner.ts'
import { lockFolder } from '../../core/kit/store/lock-folder.ts'
import { openDatabase } from '../../core/kit/store/open-database.ts'
import { brim } from '../support/brim.ts'
import { captureIo } from '../support/captured-io.ts'
import { isMissing } from '../support/prerequisites.ts'
import { fresh } from '../support/shared.ts'
import { tempDir } from '../support/temp-dir.ts'

/** A service's user with an account, and one without. */
const users = [65_534, 54_321]

const dir = fresh(tempDir)
const at = (...names: string[]) => join(dir.path, ...names)

beforeEach(() => {
  // The way to the state folder is open to every user; the folder of root is not.
  chmodSync(dir.path, 0o755)
  mkdirSync(at('root'), { mode: 0o700 })
  writeFileSync(at('root', 'precious'), 'precious', { mode: 0o644 })
})
afterEach(() => expect([process.geteuid!(), process.getegid!()]).toEqual([0, 0]))

/** The state folder of a service that runs as this user. */
function makeFolder(uid: number, name = 'state'): string {
  mkdirSync(at(name), { mode: 0o700 })
  chownSync(at(name), uid, uid)
  return at(name)
}

/** The same of a bridge that has run. @param tlsKey as its database names it, which that user writes */
async function makeBridge(uid: number, tlsKey: string | null = null): Promise<string> {
  const folder = makeFolder(uid)
  await asOwner(folder, () => {
    for (const { file, migrations } of bridgeDatabases) openDatabase(join(folder, file), migrations).close()
    const store = openDatabase(join(folder, 'bridge.sqlite'), bridgeTables)
    recordStart(store, { bridge: 'north', fleet: 'lab', tlsCert: null, tlsKey })
    store.close()
  })
  return folder
}

const run = async (...argv: string[]) => {
  const { io, out } = captureIo({ env: { HOME: at('root') } })
  await brim(argv, io)
  return out()
}

const take = (stateDir: string) =>
  backUp({ stateDir, out: at('root', 'backup'), telemetry: true, clock: systemClock, signal: new AbortController().signal })

const putBack = (stateDir: string) =>
  restore({ from: at('root', 'backup'), stateDir, replaceIdentity: false, actor: 'operator:test' })

/** Every file in a folder with the user it belongs to. */
const ownersIn = (folder: string) => new Set(readdirSync(folder).map((name) => lstatSync(join(folder, name)).uid))

/** What root's folder holds is what it held. */
function expectUntouched(): void {
  expect(readdirSync(at('root')).filter((name) => name !== 'backup')).toEqual(['precious'])
  expect(readFileSync(at('root', 'precious'), 'utf8')).toBe('precious')
  const { uid, mode } = statSync(at('root', 'precious'))
  expect([uid, mode & 0o777]).toEqual([0, 0o644])
}

describe.skipIf(isMissing('the rights of root', process.getuid?.() === 0)).each(users)(
  'root in the state folder of user %i',
  (uid) => {
    it('creates keys and tokens as that user, and their files as itself', async () => {
      const folder = makeFolder(uid)
      const out = at('root', 'token')
      await run('bridge', 'key', 'create', '--name', 'sam', '--state-dir', folder)
      await run('bridge', 'token', 'create', '--out', out, '--state-dir', folder)
      expect(await run('bridge', 'audit', '--state-dir', folder)).toContain('key.create')
      expect(ownersIn(folder)).toEqual(new Set([uid]))
      const { uid: owner, mode } = statSync(out)
      expect([owner, mode & 0o777]).toEqual([0, 0o600])
    })

    it.each(['new', 'precious'])('follows no link of that user to a file of root (%s)', async (name) => {
      const folder = makeFolder(uid)
      for (const file of ['identity.sqlite', 'lock.sqlite', 'identity']) symlinkSync(at('root', name), join(folder, file))
      for (const argv of [
        ['bridge', 'key', 'create', '--name', 'sam'],
        ['bridge', 'token', 'create'],
        ['bridge', 'audit'],
        ['agent', 'reset-identity', '--id', 'a'],
      ])
        await expect(run(...argv, '--state-dir', folder)).rejects.toMatchObject({ code: /STORE_FAILED|TARGET_UNWRITABLE/ })
      expectUntouched()
    })

    it('backs up what that user can read, into a folder of its own', async () => {
      writeFileSync(at('root', 'precious'), 'precious', { mode: 0o600 })
      chmodSync(at('root', 'precious'), 0o600)
      const { missing } = await take(await makeBridge(uid, at('root', 'precious')))
      expect(missing).toEqual([at('root', 'precious')])
      expect(existsSync(at('root', 'backup', 'tls-key.pem'))).toBe(false)
      expect(ownersIn(at('root', 'backup'))).toEqual(new Set([0]))
    })

    it('restores a backup that only root can read, as that user, and leaves a folder that one bridge can use', async () => {
      await take(await makeBridge(uid))
      const fresh = makeFolder(uid, 'fresh')
      await putBack(fresh)
      expect(ownersIn(fresh)).toEqual(new Set([uid]))
      await asOwner(fresh, () => {
        const unlock = lockFolder(fresh)
        expect(() => lockFolder(fresh)).toThrow(expect.objectContaining({ code: 'STATE_IN_USE' }))
        unlock()
        openIdentityStore(fresh).close()
      })
    })

    it('restores through no link of that user', async () => {
      await take(await makeBridge(uid))
      for (const name of ['restoring.new', 'restoring', 'bridge.sqlite', 'lock.sqlite']) {
        const folder = makeFolder(uid, name)
        symlinkSync(at('root'), join(folder, name))
        await putBack(folder).catch(() => {})
        expectUntouched()
      }
    })

    it('has neither user nor groups of root there', async () => {
      const ids = () => [process.geteuid!(), process.getegid!(), ...process.getgroups!()]
      const before = ids()
      expect(await asOwner(makeFolder(uid), ids)).not.toContain(0)
      expect(ids()).toEqual(before)
      await expect(asOwner(at('state'), () => Promise.reject(new Error('no')))).rejects.toThrow('no')
      expect(ids()).toEqual(before)
    })

    it('opens no database there by itself', () => {
      const folder = makeFolder(uid)
      const hint = expect.stringContaining(`sudo -u '#${uid}'`)
      expect(() => openIdentityStore(folder)).toThrow(expect.objectContaining({ code: 'STORE_FAILED', hint }))
      expect(() => lockFolder(folder)).toThrow(expect.objectContaining({ code: 'STORE_FAILED', hint }))
      expect(readdirSync(folder)).toEqual([])
    })

    it('a lock that cannot be written is an error', async () => {
      const folder = makeFolder(uid)
      lockFolder(at('locked'))()
      writeFileSync(join(folder, 'lock.sqlite'), readFileSync(at('locked', 'lock.sqlite')), { mode: 0o644 })
      await asOwner(folder, () => {
        const error = { code: 'STORE_FAILED', hint: expect.stringContaining('remove') }
        expect(() => lockFolder(folder)).toThrow(expect.objectContaining(error))
        rmSync(join(folder, 'lock.sqlite'))
        lockFolder(folder)()
      })
    })
  },
)
