import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/**
 * What tells this machine from a copy of its disk: the board's serial number, else the smallest address of a network device
 * that is real. Not /etc/machine-id: it is copied with the image.
 * @param root where the file system begins
 * @returns source and value, or undefined where nothing can be read
 */
export function hardwareOf(root = '/'): string | undefined {
  const serials: [string, string][] = [
    ['device-tree', 'proc/device-tree/serial-number'],
    ['dmi', 'sys/class/dmi/id/product_uuid'],
  ]
  for (const [source, path] of serials) {
    const value = contentOf(join(root, path))
    if (value) return `${source} ${value}`
  }
  const net = join(root, 'sys/class/net')
  const real = namesIn(net).filter((name) => namesIn(join(net, name)).includes('device'))
  const [address] = real
    .map((name) => contentOf(join(net, name, 'address')))
    .filter(Boolean)
    .sort()
  return address ? `mac ${address}` : undefined
}

/** Printable characters alone: a device tree's strings end with NUL. */
function contentOf(path: string): string | undefined {
  try {
    return readFileSync(path, 'latin1')
      .replace(/[^\x21-\x7e]/g, '')
      .slice(0, 80)
  } catch {
    return undefined
  }
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder)
  } catch {
    return []
  }
}
