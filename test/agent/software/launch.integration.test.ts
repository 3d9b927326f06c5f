import { execFileSync } from 'node:child_process'
import { chmodSync, cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import Database from 'better-sqlite3'
import { expect, it } from 'vitest'
import { ReleaseFolder } from '../../../agent/software/release-folder.ts'
import { Software } from '../../../agent/software/software.ts'
import { TrialFile } from '../../../agent/trial/trial-file.ts'
import { BrimError } from '../../../core/kit/base/errors.ts'
import { projectRoot } from '../../../core/kit/base/version.ts'
import { tempDir } from '../../support/temp-dir.ts'

// The real jetson/launch with releases whose program prints their name, and the agent's side killed between any two steps.

const job = 'bridge-1 job-1'
const release = '9.9.9-00000000'

function installation(dir: string) {
  const base = join(dir, 'base')
  mkdirSync(join(base, 'jetson'), { recursive: true })
  cpSync(fileURLToPath(new URL('jetson/launch', projectRoot)), join(base, 'jetson/launch'))
  const stateDir = join(dir, 'state')
  const path = join(stateDir, 'releases')
  for (const folder of [base, join(path, release)]) {
    mkdirSync(join(folder, 'bin'), { recursive: true })
    writeFileSync(join(folder, 'bin/brim'), '#!/bin/sh\necho "$BRIM_RELEASE"\n')
    chmodSync(join(folder, 'bin/brim'), 0o755)
  }
  const store = new Database(join(stateDir, 'agent.sqlite'))
  store.exec('CREATE TABLE births (id INTEGER, birth INTEGER); INSERT INTO births VALUES (1, 7); PRAGMA user_version = 1')
  store.close()
  return {
    path,
    stateDir,
    /** @returns the release that is started; undefined: the installed one */
    launch: () =>
      execFileSync(join(base, 'jetson/launch'), ['agent', 'run'], {
        env: { PATH: process.env.PATH, STATE_DIRECTORY: stateDir },
        encoding: 'utf8',
        stdio: ['ignore', 'pipe', 'ignore'],
      }).trim() || undefined,
  }
}

class Killed extends Error {}

const writers: [Record<string, unknown>, string[]][] = [
  [ReleaseFolder.prototype as unknown as Record<string, unknown>, ['setLink', 'endTrial', 'prune']],
  [TrialFile.prototype as unknown as Record<string, unknown>, ['set']],
]

/** Lets the n-th write to disk be the last one of its process. */
function killAfter(n: number) {
  let writes = 0
  const restores: (() => void)[] = []
  for (const [of, names] of writers)
    for (const name of names) {
      const write = of[name] as (...parameters: unknown[]) => unknown
      of[name] = function (this: unknown, ...parameters: unknown[]) {
        writes += 1
        if (writes > n) throw new Killed()
        return write.apply(this, parameters)
      }
      restores.push(() => {
        of[name] = write
      })
    }
  return { isOver: () => writes > n, restore: () => void restores.map((restore) => restore()) }
}

/** What the agent does after a start by `jetson/launch`, up to its end. @param isHealthy whether the new release is */
function run(world: ReturnType<typeof installation>, running: string | undefined, isHealthy: boolean): string {
  try {
    const software = new Software({ path: world.path, running, stateDir: world.stateDir })
    software.start()
    const { onTrial } = software
    if (onTrial && isHealthy) onTrial.keep()
    else onTrial?.undo('no bridge')
    if (!onTrial) {
      const step = software.nextStep(job, release)
      if (step.kind === 'kept' || step.kind === 'failed') return step.kind
      if (step.kind === 'begin') software.begin(job, release, undefined)
    }
    software.switchOver()
    return 'runs'
  } catch (error) {
    if (error instanceof Killed || (error instanceof BrimError && error.code === 'RESTART_REQUIRED')) return 'ended'
    throw error
  }
}

it.each([
  [true, 'kept', release],
  [false, 'failed', undefined],
])('wherever the process is killed, a release that is healthy (%s) ends as %s', (isHealthy, outcome, expected) => {
  for (let kill = 0; ; kill++) {
    using dir = tempDir()
    const world = installation(dir.path)
    const killing = killAfter(kill)
    let result = ''
    try {
      for (let start = 0; start < 12 && result !== outcome; start++) {
        const running = world.launch()
        result = run(world, running, isHealthy)
        if (killing.isOver()) killing.restore()
        if (result === outcome) expect(running).toBe(expected)
      }
    } finally {
      killing.restore()
    }
    expect(result).toBe(outcome)
    expect(world.launch()).toBe(expected)
    if (killing.isOver()) continue
    expect(kill).toBeGreaterThan(8)
    break
  }
})

it('returns from a release that ends before it decides, and restores what it has migrated', () => {
  using dir = tempDir()
  const world = installation(dir.path)
  expect(run(world, world.launch(), true)).toBe('ended')
  const started = []
  for (let start = 0; start < 5; start++) {
    started.push(world.launch())
    const store = new Database(join(world.stateDir, 'agent.sqlite'))
    if (start === 0) store.exec('ALTER TABLE births ADD COLUMN more; UPDATE births SET birth = 9; PRAGMA user_version = 2')
    store.close()
  }
  expect(started).toEqual([release, release, release, undefined, undefined])
  expect(run(world, undefined, true)).toBe('failed')
  const store = new Database(join(world.stateDir, 'agent.sqlite'))
  expect(store.pragma('user_version', { simple: true })).toBe(1)
  expect(store.prepare('SELECT birth FROM births').pluck().get()).toBe(1_007)
  store.close()
  // Another job may try it again.
  const software = new Software({ path: world.path, running: undefined, stateDir: world.stateDir })
  expect(software.nextStep(job, release)).toMatchObject({ kind: 'failed', problem: expect.stringContaining('3 times') })
  expect(software.nextStep('another', release)).toEqual({ kind: 'begin' })
})

it('returns from a release whose starts cannot be counted, as on a disk that it has filled', () => {
  using dir = tempDir()
  const world = installation(dir.path)
  expect(run(world, world.launch(), true)).toBe('ended')
  expect(world.launch()).toBe(release)
  mkdirSync(join(world.path, 'starts.next'))
  expect([world.launch(), world.launch()]).toEqual([undefined, undefined])
  expect(run(world, undefined, true)).toBe('failed')
  // The space that it needs is free again.
  expect(existsSync(join(world.path, release))).toBe(false)
})

it('starts the installed release where the one of a job is not complete', () => {
  using dir = tempDir()
  const world = installation(dir.path)
  const folder = new ReleaseFolder(world.path)
  folder.setLink('current', 'gone')
  expect(world.launch()).toBeUndefined()
  writeFileSync(join(world.path, 'starts'), 'broken')
  folder.setLink('current', release)
  folder.setLink('trial', release)
  expect(world.launch()).toBe(release)
  expect(readFileSync(join(world.path, 'starts'), 'utf8').trim()).toBe('1')
  expect(existsSync(join(world.path, release))).toBe(true)
})
