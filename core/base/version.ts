import { readFileSync } from 'node:fs'

/** Where package.json, models/ and scripts/ lie: above this file in the source tree, one more above in dist/. */
export const projectRoot = findRoot()

export const version = (JSON.parse(readFileSync(new URL('package.json', projectRoot), 'utf8')) as { version: string }).version

function findRoot(): URL {
  const above = new URL('../../', import.meta.url)
  return above.pathname.endsWith('/dist/') ? new URL('../', above) : above
}
