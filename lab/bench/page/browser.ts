import { existsSync } from 'node:fs'
import axe from 'axe-core'
import { type Browser, chromium, type Page } from 'playwright-core'
import { BrimError } from '../../../core/kit/base/errors.ts'

const programs = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome']

/** Undefined: this machine has none. */
export const chromiumProgram = (): string | undefined => programs.find(existsSync)

/** @throws BrimError PREREQUISITE_MISSING */
export function launchBrowser(): Promise<Browser> {
  const executablePath = chromiumProgram()
  if (executablePath !== undefined) return chromium.launch({ executablePath })
  throw new BrimError('PREREQUISITE_MISSING', `no browser was found (${programs.join(', ')})`, {
    hint: 'Debian: apt-get install chromium',
  })
}

/** What a page complains of, as it comes. A browser also names each request that a server which is away has refused; that is no fault of the page. */
export function consoleErrorsOf(page: Page): readonly string[] {
  const errors: string[] = []
  page.on('pageerror', (error) => errors.push(String(error)))
  page.on('console', (message) => {
    if (message.type() === 'error' && !message.text().startsWith('Failed to load resource: net::ERR_'))
      errors.push(message.text())
  })
  return errors
}

/** What WCAG 2.2 A and AA forbid and axe-core finds: the rule, and where. */
export async function axeViolationsOf(page: Page): Promise<string[]> {
  await page.evaluate(axe.source)
  const tags = JSON.stringify(['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'])
  const run = `axe.run(document, { runOnly: ${tags}, resultTypes: ['violations'] })`
  const { violations } = await page.evaluate<{ violations: readonly { id: string; nodes: readonly { target: unknown }[] }[] }>(
    run,
  )
  return violations.flatMap(({ id, nodes }) => nodes.map(({ target }) => `${id}: ${String(target)}`))
}
