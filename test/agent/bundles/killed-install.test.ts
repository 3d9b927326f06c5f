import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import fs from 'node:fs/promises'
import { syncBuiltinESMExports } from 'node:module'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { BundleFolder, type BundleVersion } from '../../../agent/bundles/bundle-folder.ts'
import { sha256Of } from '../../support/sha256-of.ts'
import { tempDir } from '../../support/temp-dir.ts'
import { tinyBundle } from '../../support/tiny-bundle.ts'

// Every change of the disk by the agent's code can be the last one of its process.
const disk = { changes: 0, last: Number.POSITIVE_INFINITY }
class Killed extends Error {}
const real = { ...fs }
beforeAll(() => {
  for (const name of ['mkdir', 'rename', 'rm', 'utimes', 'open'] as const)
    fs[name] = ((...given: unknown[]) => {
      disk.changes += 1
      if (disk.changes > disk.last) throw new Killed()
      return (real[name] as (...parameters: unknown[]) => unknown)(...given)
    }) as never
  syncBuiltinESMExports()
})
afterAll(() => {
  Object.assign(fs, real)
  syncBuiltinESMExports()
})

const never = new AbortController().signal

it('wherever the agent is killed, one intact version is installed, and the job that goes on installs the other', async () => {
  using bundle = await tinyBundle()
  const { modelId } = bundle.manifest
  using dir = tempDir()
  const other = join(dir.path, 'other')
  cpSync(bundle.path, other, { recursive: true })
  const path = join(other, 'manifest.json')
  writeFileSync(path, readFileSync(path, 'utf8').replace('"tiny"', '"other"'))
  const versionOf = (folder: string): BundleVersion => ({ modelId, manifestSha256: sha256Of(join(folder, 'manifest.json')) })
  const [before, after] = [versionOf(bundle.path), versionOf(other)]
  const state = join(dir.path, 'state')

  /** One start of the agent, with the job. @returns whether the job has ended */
  async function run(): Promise<boolean> {
    const folder = new BundleFolder(state)
    try {
      await folder.recover()
      const installed = await Promise.all([before, after].map((version) => folder.isIntact(version, never)))
      expect(installed.filter(Boolean)).toHaveLength(1)
      if (!installed[1]) {
        // The download goes on where it stopped: its files are complete now.
        cpSync(other, await folder.partial(after), { recursive: true })
        await folder.install(after)
      }
      await folder.removeUnused([folder.folderOf(modelId)], Date.now())
      return true
    } catch (error) {
      if (error instanceof Killed) return false
      throw error
    }
  }

  for (let kill = 0; ; kill++) {
    disk.last = Number.POSITIVE_INFINITY
    mkdirSync(join(state, 'bundles'), { recursive: true })
    const at = join(state, 'bundles', modelId)
    cpSync(bundle.path, at, { recursive: true })
    disk.changes = 0
    disk.last = kill
    const hasEnded = await run()
    disk.last = Number.POSITIVE_INFINITY
    expect(await run()).toBe(true)
    expect(await new BundleFolder(state).isIntact(after, never)).toBe(true)
    const partials = join(state, 'bundles', '.partial')
    expect(existsSync(partials) ? readdirSync(partials) : []).toEqual([])
    if (!hasEnded) continue
    expect(kill).toBeGreaterThan(5)
    return
  }
})
