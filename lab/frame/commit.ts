import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { projectRoot } from '../../core/kit/base/version.ts'

/** What no benchmark runs or reads as its input. Prompts of benchmarks are in test/fixtures. */
const noCode = [':(exclude)docs', ':(exclude)*.md', ':(exclude,glob)test/**/*.ts']

/**
 * The commit that runs: of the checkout, with `-dirty` where code has changed since; of an installation the one that was built.
 * Null where neither is known.
 */
export function currentCommit(root = projectRoot): string | null {
  if (existsSync(new URL('.git', root))) {
    const commit = git(root, ['rev-parse', '--short', 'HEAD'])
    if (commit)
      return git(root, ['status', '--porcelain', '--untracked-files=no', '--', '.', ...noCode]) ? `${commit}-dirty` : commit
  }
  try {
    return readFileSync(new URL('dist/.commit', root), 'utf8').trim() || null
  } catch {
    return null
  }
}

/** Whether two commits hold the same code, documents and tests aside. */
export function isSameCode(one: string, other: string, root = projectRoot): boolean {
  if (one.endsWith('-dirty') || other.endsWith('-dirty')) return false
  return one === other || git(root, ['diff', '--name-only', one, other, '--', '.', ...noCode]) === ''
}

/** Undefined where git is missing or fails. */
function git(cwd: URL, args: readonly string[]): string | undefined {
  try {
    return execFileSync('git', args, { cwd, stdio: ['ignore', 'pipe', 'ignore'], encoding: 'utf8' }).trim()
  } catch {
    return undefined
  }
}
