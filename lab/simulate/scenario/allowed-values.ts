/** What is used here of a JSON schema. */
interface Node {
  readonly $ref?: string
  readonly anyOf?: readonly Node[]
  readonly oneOf?: readonly Node[]
  readonly type?: string
  readonly const?: unknown
  readonly enum?: readonly unknown[]
  readonly properties?: Readonly<Record<string, Node>>
  readonly required?: readonly string[]
  readonly items?: Node
  readonly prefixItems?: readonly Node[]
  readonly minimum?: number
  readonly maximum?: number
  readonly exclusiveMinimum?: number
  readonly $defs?: Readonly<Record<string, Node>>
}

export type Path = readonly PropertyKey[]

/** Tells what a JSON schema allows at a path. */
export class AllowedValues {
  readonly #root: Node

  /** @param schema as z.toJSONSchema makes it */
  constructor(schema: object) {
    this.#root = schema
  }

  /** As it follows "must be". */
  textAt(path: Path): string {
    return joined(this.#nodesAt(path).map((node) => this.#text(node)))
  }

  /** Fields that an object at this path may have. */
  fieldsAt(path: Path): readonly string[] {
    return [...new Set(this.#nodesAt(path).flatMap(({ properties = {} }) => Object.keys(properties)))]
  }

  /** Several where values of different kinds are allowed. */
  #nodesAt(path: Path): readonly Node[] {
    let nodes = this.#kindsOf(this.#root)
    for (const part of path)
      nodes = nodes.flatMap((node) => {
        const inside = typeof part === 'number' ? (node.prefixItems?.[part] ?? node.items) : node.properties?.[String(part)]
        return inside ? this.#kindsOf(inside) : []
      })
    return nodes
  }

  #kindsOf(node: Node): readonly Node[] {
    const { $ref, anyOf = node.oneOf } = node
    if ($ref !== undefined) {
      const definition = this.#root.$defs?.[$ref.replace('#/$defs/', '')]
      return definition ? this.#kindsOf(definition) : []
    }
    // A text that has its presets beside it stays one node.
    return anyOf && node.type === undefined ? anyOf.flatMap((kind) => this.#kindsOf(kind)) : [node]
  }

  #text(node: Node): string {
    if (node.const !== undefined) return String(node.const)
    if (node.enum) return `one of ${node.enum.join(', ')}`
    switch (node.type) {
      case 'number':
        return `a number${boundsOf(node)}`
      case 'integer':
        return `a whole number${boundsOf(node)}`
      case 'boolean':
        return 'true or false'
      case 'array':
        if (node.prefixItems) return `a list of ${node.prefixItems.length}`
        return node.items
          ? `a list, each item of it ${joined(this.#kindsOf(node.items).map((item) => this.#text(item)))}`
          : 'a list'
      case 'object':
        return `{${Object.entries(node.properties ?? {})
          .filter(([field]) => node.required?.includes(field))
          .map(([field, value]) => (value.const === undefined ? field : `${field}: ${String(value.const)}`))
          .join(', ')}, …}`.replace(/^\{, /, '{')
      default:
        return 'a text'
    }
  }
}

function boundsOf({ minimum = Number.NEGATIVE_INFINITY, maximum, exclusiveMinimum }: Node): string {
  const most = maximum === undefined || maximum >= Number.MAX_SAFE_INTEGER ? undefined : maximum
  const least = minimum <= Number.MIN_SAFE_INTEGER ? undefined : minimum
  if (exclusiveMinimum !== undefined)
    return most === undefined ? ` above ${exclusiveMinimum}` : ` above ${exclusiveMinimum}, at most ${most}`
  if (least !== undefined) return most === undefined ? `, at least ${least}` : ` from ${least} to ${most}`
  return most === undefined ? '' : `, at most ${most}`
}

function joined(texts: readonly string[]): string {
  const different = [...new Set(texts)]
  if (different.length < 2) return different.join('')
  return `${different.slice(0, -1).join(', ')} or ${different.at(-1)}`
}
