import { existsSync, readdirSync, renameSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { describe, expect, it } from 'vitest'
import { startAgent } from '../../agent/agent.ts'
import { agentDatabases } from '../../agent/databases.ts'
import { run } from '../../brim.ts'
import { bridgeDatabases } from '../../cloud-bridge/databases.ts'
import { openIdentityStore } from '../../cloud-bridge/identity/store.ts'
import type { StoreFile } from '../../core/kit/store/require-stores.ts'
import { startTestBridge } from '../support/bridge.ts'
import { captureIo } from '../support/captured-io.ts'
import { fresh } from '../support/shared.ts'
import { tempDir } from '../support/temp-dir.ts'

const dir = fresh(tempDir)

const openBridge = () => startTestBridge({ upstream: { url: 'http://127.0.0.1:9', model: 'm' }, stateDir: dir.path })
const openAgent = () =>
  startAgent({ id: 'orin', bridges: ['mqtt://127.0.0.1:9'], apiPort: 0, stateDir: dir.path, logLevel: 'silent' })
const sides = {
  bridge: { open: openBridge, stores: bridgeDatabases },
  agent: { open: openAgent, stores: agentDatabases },
}
const cases = (holds: StoreFile['holds']) =>
  Object.entries(sides).flatMap(([side, { open, stores }]) =>
    stores.filter((store) => store.holds === holds && store.file !== 'answers.sqlite').map(({ file }) => ({ side, file, open })),
  )

const damages: ((path: string) => void)[] = [
  (path) => truncateSync(path, 0),
  (path) => {
    rmSync(path)
    const store = new Database(path)
    store.exec('CREATE TABLE other (x)')
    store.close()
  },
  (path) => writeFileSync(path, 'x'.repeat(9_000)),
]

/** The state folder of a process that has run. */
async function ran(open: () => Promise<{ close(): Promise<void> }>): Promise<void> {
  await (await open()).close()
}

describe.each(cases('records'))('the records of a $side in $file', ({ file, open }) => {
  it('that are damaged or lost are named, and no new ones take their place', async () => {
    await ran(open)
    const path = join(dir.path, file)
    renameSync(path, `${path}.kept`)
    await expect(open()).rejects.toMatchObject({ code: 'STORE_DAMAGED', message: expect.stringContaining(file) })
    expect(existsSync(path)).toBe(false)
    for (const damage of damages) {
      writeFileSync(path, 'to be damaged')
      damage(path)
      await expect(open()).rejects.toMatchObject({
        code: 'STORE_DAMAGED',
        message: expect.stringContaining(path),
        hint: expect.stringMatching(/backup.*begin anew/),
      })
    }
    renameSync(`${path}.kept`, path)
    await ran(open)
  })
})

describe.each(cases('figures'))('the figures of a $side in $file', ({ file, open }) => {
  it('that are damaged are set aside and begun anew', async () => {
    await ran(open)
    for (const damage of damages) {
      damage(join(dir.path, file))
      await ran(open)
      expect(readdirSync(dir.path).filter((name) => name.startsWith(`${file}.damaged-`))).toHaveLength(1)
    }
  })
})

it('a bridge begins anew once the files that the hint names are moved away', async () => {
  await ran(openBridge)
  rmSync(join(dir.path, 'jobs.sqlite'))
  const error = await openBridge().catch((caught: unknown) => caught as { hint: string })
  expect(error).toMatchObject({ hint: expect.stringContaining('move telemetry.sqlite, pice.sqlite') })
  for (const name of readdirSync(dir.path)) if (/^(telemetry|pice|answers)/.test(name)) rmSync(join(dir.path, name))
  await ran(openBridge)
})

it('keys that an operator creates before the first start of a bridge are no reason to doubt', async () => {
  openIdentityStore(dir.path).close()
  await ran(openBridge)
})

it('the command line takes no empty or lost identity.sqlite for a new one, and backs up no part of a bridge', async () => {
  await ran(openBridge)
  const command = async (...words: string[]) => {
    const { io, err } = captureIo()
    expect(await run([...words, '--state-dir', dir.path, '--json'], io)).toBe(1)
    return (JSON.parse(err()) as { error: { code: string } }).error.code
  }
  truncateSync(join(dir.path, 'identity.sqlite'), 0)
  expect(await command('bridge', 'key', 'create', '--name', 'ada')).toBe('STORE_DAMAGED')
  rmSync(join(dir.path, 'identity.sqlite'))
  expect(await command('bridge', 'key', 'create', '--name', 'ada')).toBe('STORE_DAMAGED')
  expect(await command('bridge', 'backup', '--out', join(dir.path, 'backup'))).toBe('STORE_DAMAGED')
  expect(existsSync(join(dir.path, 'identity.sqlite'))).toBe(false)
})
