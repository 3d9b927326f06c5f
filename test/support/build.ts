import { spawnSync } from 'node:child_process'

/** Brings dist/, which the tests run, up to date. Errors in types are printed, and the tests run all the same. */
export function setup(): void {
  spawnSync('node_modules/.bin/tsc', ['-b'], { stdio: 'inherit' })
  spawnSync('npm', ['run', '-s', 'page'], { stdio: 'inherit' })
}
