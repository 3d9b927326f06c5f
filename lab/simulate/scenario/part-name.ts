/** The name of a part of the workload. */
export const partName = ({ name, mode }: { readonly name?: string | undefined; readonly mode: string }): string => name ?? mode
