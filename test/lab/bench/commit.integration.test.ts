import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { describe, expect, it } from 'vitest'
import { isSaved } from '../../../lab/bench/all/saved.ts'
import { currentCommit, isSameCode } from '../../../lab/frame/commit.ts'
import { tempDir } from '../../support/temp-dir.ts'

/** A checkout with one commit, which `write` extends. */
function checkout(dir: string) {
  const git = (...args: string[]) =>
    execFileSync('git', ['-c', 'user.name=a', '-c', 'user.email=a@b', ...args], { cwd: dir, stdio: 'pipe' })
      .toString()
      .trim()
  git('init', '--quiet')
  const write = (path: string, text: string) => {
    mkdirSync(join(dir, path, '..'), { recursive: true })
    writeFileSync(join(dir, path), text)
  }
  const commit = (path: string, text: string) => {
    write(path, text)
    git('add', '.')
    git('commit', '--quiet', '-m', path)
    return git('rev-parse', '--short', 'HEAD')
  }
  return { root: pathToFileURL(`${dir}/`), write, commit, first: commit('lab/a.ts', '1') }
}

describe('the commit of a measurement', () => {
  it('is that of the checkout, marked where code has changed since', () => {
    using dir = tempDir()
    const { root, write, commit, first } = checkout(dir.path)
    expect(currentCommit(root)).toBe(first)
    commit('docs/page.md', '1')
    write('docs/page.md', '2')
    expect(currentCommit(root)).not.toContain('dirty')
    write('lab/a.ts', '2')
    expect(currentCommit(root)).toMatch(/-dirty$/)
  })

  it('is the built one where there is no checkout, and unknown without either', () => {
    using dir = tempDir()
    const root = pathToFileURL(`${dir.path}/`)
    expect(currentCommit(root)).toBeNull()
    mkdirSync(join(dir.path, 'dist'))
    writeFileSync(join(dir.path, 'dist', '.commit'), 'abc1234\n')
    expect(currentCommit(root)).toBe('abc1234')
  })

  it('holds the same code as another one if only documents and tests differ', () => {
    using dir = tempDir()
    const { root, commit, first } = checkout(dir.path)
    commit('test/lab/a.test.ts', '1')
    const documents = commit('docs/page.md', '1')
    const code = commit('lab/a.ts', '2')
    expect([documents, code, `${first}-dirty`, 'unknown'].map((other) => isSameCode(first, other, root))).toEqual([
      true,
      false,
      false,
      false,
    ])
  })
})

describe('a saved document', () => {
  it.each([
    ['brim bench hat', 'abc', false, true],
    ['brim bench hat', 'abc', true, true],
    ['brim bench hat --quick', 'abc', true, true],
    ['brim bench hat --quick', 'abc', false, false],
    ['brim bench hat', 'other', false, false],
    ['brim bench hat', null, false, false],
  ])('of "%s" at commit %s (quick: %s) is measured again or not', async (command, commit, quick, expected) => {
    using dir = tempDir()
    writeFileSync(join(dir.path, 'hat.json'), JSON.stringify({ bench: 'hat', conditions: { command, commit } }))
    expect(await isSaved(dir.path, 'hat', quick, 'abc')).toBe(expected)
    expect(await isSaved(dir.path, 'other', quick, 'abc')).toBe(false)
  })
})
